"""Records back into files: unchanged, the best, several logs in one."""

from __future__ import annotations

import io

import pytest

from tests.tuning.logs import examples
from tests.tuning.logs.examples import auto_scheduler, autotvm, hashed, lines, meta_schedule, old_autotvm, workload
from tuning.logs.neutral import Task, Trial
from tuning.logs.opening import Log
from tuning.logs.writing import CannotWrite, distill, merge, write


def pairs(log: Log) -> list[tuple[Trial, Task]]:
    return list(merge([log]))


@pytest.mark.parametrize("name", examples.EVERY_VERSION)
def test_what_was_read_is_written_byte_for_byte(name: str) -> None:
    line = examples.EVERY_VERSION[name]
    (log,) = examples.open_text(log=lines("# comment", line, "", "rubbish", line)).logs
    records = io.BytesIO()
    assert write(merge([log]), log.engine, records) == 2
    assert records.getvalue().decode() == lines(line, line)


def database(*records: str, workloads: str) -> Log:
    (log,) = examples.open_text(database_tuning_record=lines(*records), database_workload=workloads).logs
    return log


def test_databases_are_merged_with_each_workload_once() -> None:
    first = database(meta_schedule(1), meta_schedule(0), workloads=lines(workload("111"), workload("222")))
    second = database(meta_schedule(0), meta_schedule(1), workloads=lines(workload("333"), workload("111")))
    records, workloads = io.BytesIO(), io.BytesIO()
    write(merge([first, second]), "meta_schedule", records, workloads)
    assert workloads.getvalue().decode() == lines(workload("222"), workload("111"), workload("333"))
    merged = database(*records.getvalue().decode().splitlines(), workloads=workloads.getvalue().decode())
    hashes = [task.workload_hash for _, task in pairs(merged)]
    assert hashes == [hashed(222), hashed(111), hashed(333), hashed(111)]


def test_a_database_in_order_is_written_byte_for_byte() -> None:
    given = lines(meta_schedule(0), meta_schedule(1), meta_schedule(0)), lines(workload("111"), workload("222"))
    records, workloads = io.BytesIO(), io.BytesIO()
    write(merge([database(*given[0].splitlines(), workloads=given[1])]), "meta_schedule", records, workloads)
    assert (records.getvalue().decode(), workloads.getvalue().decode()) == given


def test_records_without_workloads_arent_merged_into_a_database() -> None:
    (log,) = examples.open_text(records=lines(meta_schedule())).logs
    with pytest.raises(CannotWrite, match=r"records\.json, line 1 isn't known"):
        write(merge([log]), "meta_schedule", io.BytesIO(), io.BytesIO())


def test_logs_of_different_engines_arent_merged() -> None:
    logs = examples.open_text(a=lines(auto_scheduler()), b=lines(autotvm())).logs
    with pytest.raises(CannotWrite, match="auto_scheduler and autotvm can't be merged"):
        merge(logs)
    with pytest.raises(CannotWrite, match=r"b\.json, line 1 is a record of autotvm"):
        write(merge(logs[1:]), "auto_scheduler", io.BytesIO())


def test_the_best_of_each_task_is_kept() -> None:
    records = [
        autotvm(costs=[0.004]),
        old_autotvm(costs=[0.5]),
        autotvm(costs=[0.002], at=1_700_000_001),
        autotvm(costs=[1e9], error=4),
        autotvm(costs=[0.002], at=1_700_000_002),
        autotvm(costs=[0.003]),
        autotvm("dense_nopack.x86", costs=[1e9], error=2),
    ]
    _, found = examples.read(*records)
    trials = examples.trials(found)
    assert [trial.line for trial in distill(trials)] == [3, 2]
    assert [trial.line for trial in distill(trials, best=3)] == [3, 5, 6, 2]


def test_a_distilled_log_is_a_log() -> None:
    log, found = examples.read(auto_scheduler(costs=[0.2]), auto_scheduler(costs=[0.1]))
    records = io.BytesIO()
    write(((trial, log.tasks[trial.task]) for trial in distill(examples.trials(found))), log.engine, records)
    assert records.getvalue().decode() == lines(auto_scheduler(costs=[0.1]))
