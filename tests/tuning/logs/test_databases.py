"""MetaSchedule's databases: pairs of files, records alone, whole work directories, and files that don't belong together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.tuning.logs import examples
from tests.tuning.logs.examples import hashed, lines, meta_schedule, new_module, old_module, workload
from tuning.logs.neutral import TensorInfo
from tuning.logs.opening import open_logs
from tuning.logs.sources import sources

TWO = lines(meta_schedule(0), meta_schedule(1, costs=[1e10]))
WORKLOADS = lines(workload("111"), workload("222", new_module()))


@pytest.mark.parametrize(("module", "version"), [(old_module(), "0.8.0"), (new_module(), "0.27.0")])
def test_a_pair_tells_hashes_names_and_the_tvm(module: dict[str, object], version: str) -> None:
    opened = examples.open_text(
        database_tuning_record=lines(meta_schedule()), database_workload=lines(workload("77", module))
    )
    (log,) = opened.logs
    (trial,) = examples.trials(examples.everything(log))
    task = log.tasks[trial.task]
    assert (task.workload_hash, task.target, log.tvm_version) == ("0x000000000000004d", examples.LLVM, version)
    assert task.args == (TensorInfo("A", (64, 64), "float32"), TensorInfo("B", (64, 64), "float32"))
    assert task.workload == workload("77", module)
    assert (task.name, task.flop, task.weight) == (None, None, None)
    assert opened.skipped == []
    assert log.remarks == []


def test_records_alone_are_read_and_said_to_be_alone() -> None:
    (log,) = examples.open_text(records=TWO).logs
    found = examples.trials(examples.everything(log))
    assert len({trial.task for trial in found}) == 2
    assert all(
        task.workload_hash.startswith("unknown-") and len(task.workload_hash) <= 64 for task in log.tasks.values()
    )
    assert all(task.args[0] == TensorInfo(None, (64, 64), "float32") for task in log.tasks.values())
    assert ["there is no database_workload.json" in remark.text for remark in log.remarks] == [True]


def test_workloads_alone_are_skipped() -> None:
    (skipped,) = examples.open_text(database_workload=WORKLOADS).skipped
    assert "the records of these workloads are missing" in skipped.reason


def test_pairs_are_told_by_folder_and_by_name() -> None:
    files = {
        "a/database_tuning_record.json": TWO,
        "a/database_workload.json": WORKLOADS,
        "cuda_tuning_record.json": TWO,
        "cuda_workload.json": lines(workload("333"), workload("444")),
        "llvm_tuning_record.json": TWO,
    }
    opened = examples.open_files(files)
    hashes = {}
    for log in opened.logs:
        examples.everything(log)
        hashes[log.name] = [task.workload_hash for task in log.tasks.values()]
    assert hashes["a/database_tuning_record.json"] == [hashed(111), hashed(222)]
    assert hashes["cuda_tuning_record.json"] == [hashed(333), hashed(444)]
    assert all(each.startswith("unknown") for each in hashes["llvm_tuning_record.json"])


def test_two_databases_that_are_mixed_up_are_told_by_their_arguments() -> None:
    others = lines(workload("111", old_module(shape=(32, 32))), workload("222", old_module(dtype="int8")))
    (log,) = examples.open_text(database_tuning_record=TWO, database_workload=others).logs
    found = examples.everything(log)
    assert examples.trials(found) == []
    assert [bad.line for bad in examples.bad(found)] == [1, 2]
    assert "its arguments aren't those of workload 0 in database_workload.json" in examples.bad(found)[0].reason


def test_a_workload_that_isnt_there_costs_only_its_records() -> None:
    (log,) = examples.open_text(
        database_tuning_record=lines(meta_schedule(7), meta_schedule(0)), database_workload=WORKLOADS
    ).logs
    found = examples.everything(log)
    assert [bad.reason for bad in examples.bad(found)] == [
        "workload 7 isn't in database_workload.json, which has 2 lines"
    ]
    assert [trial.line for trial in examples.trials(found)] == [2]


def test_a_broken_workload_keeps_its_index_and_costs_only_its_records() -> None:
    broken = lines(json.dumps(["111", "no base64"]), workload("222"))
    (log,) = examples.open_text(database_tuning_record=TWO, database_workload=broken).logs
    found = examples.everything(log)
    assert [log.tasks[trial.task].workload_hash for trial in examples.trials(found)] == [hashed(222)]
    assert [bad.line for bad in examples.bad(found)] == [1]
    assert [(remark.file, remark.line) for remark in log.remarks] == [("database_workload.json", 1)]


def test_a_module_that_isnt_understood_leaves_its_arguments_to_the_records() -> None:
    module = {"nodes": [{"type": "tirx.PrimFunc", "data": {}}]}
    (log,) = examples.open_text(
        database_tuning_record=lines(meta_schedule()), database_workload=lines(workload("9", module))
    ).logs
    examples.everything(log)
    assert [task.args[0] for task in log.tasks.values()] == [TensorInfo(None, (64, 64), "float32")]


def test_the_digest_knows_the_workload_rather_than_its_index() -> None:
    def digest(*, first: int, workloads: str) -> str:
        records = lines(meta_schedule(first), meta_schedule(1 - first))
        return examples.open_text(database_tuning_record=records, database_workload=workloads).logs[0].digest()

    turned = lines(*reversed(WORKLOADS.splitlines()))
    assert digest(first=0, workloads=WORKLOADS) == digest(first=1, workloads=turned)
    assert digest(first=0, workloads=WORKLOADS) != digest(first=1, workloads=WORKLOADS)


SCHEDULER = """\
2026-11-21 02:27:04 [INFO] [task_scheduler.cc:174] Initializing Task #0: "mm64"
2026-11-21 02:27:04 [INFO] [task_scheduler.cc:174] Initializing Task #1: "mm96"
 ID | Name |    FLOP | Weight | Speed (GFLOPS) | Latency (us) | Weighted Latency (us) | Trials | Done
------------------------------------------------------------------------------------------------------
  0 | mm64 |  528384 |      3 |       176.1280 |    3000.0000 |             9000.0000 |      3 |
  1 | mm96 | 1778688 |      1 |            N/A |          N/A |                   N/A |      2 |    Y
"""
TASK_0 = """\
2026-11-21 02:27:04 [INFO] [task_scheduler.cc:175] Initializing Task #0: "mm64"
2026-11-21 02:28:06 [INFO] [task_scheduler.cc:144] [Task #0: mm64] Trial #1: GFLOPs: 0.1761. Time: 3000.0000 us. Best GFLOPs: 0.1761
2026-11-21 02:28:06 [INFO] [task_scheduler.cc:134] [Task #0: mm64] Trial #2: Error in building:
LocalBuilder: Timeout, killed after 30.0 seconds

# from tvm.script import ir as I
@I.ir_module
2026-11-21 02:29:06 [INFO] [task_scheduler.cc:144] [Task #0: mm64] Trial #3: GFLOPs: 0.1761. Time: 3.5000 ms. Best GFLOPs: 0.1761
"""
TASK_1 = """\
2026-11-21 02:27:04 [INFO] [task_scheduler.cc:175] Initializing Task #1: "mm96"
2026-11-21 02:28:30 [INFO] [task_scheduler.cc:134] [Task #1: mm96] Trial #1: Error in running:
CUDA: an illegal memory access
2026-11-21 02:28:30 [INFO] [task_scheduler.cc:134] [Task #1: mm96] Trial #2: Error in running:
CUDA: an illegal memory access
"""
FIVE = lines(
    meta_schedule(0),
    meta_schedule(0, costs=[1e10]),
    meta_schedule(1, costs=[1e10]),
    meta_schedule(1, costs=[1e10]),
    meta_schedule(0, costs=[0.0035]),
)


def work_dir(tmp_path: Path, **logs: str) -> Path:
    (tmp_path / "logs").mkdir()
    (tmp_path / "database_tuning_record.json").write_text(FIVE)
    (tmp_path / "database_workload.json").write_text(WORKLOADS)
    for name, text in logs.items():
        (tmp_path / "logs" / f"tvm.meta_schedule.logging.{name}.log").write_text(text)
    return tmp_path


def test_a_work_directory_tells_what_the_records_lack(tmp_path: Path) -> None:
    (log,) = open_logs(
        sources(work_dir(tmp_path, task_scheduler=SCHEDULER, task_0_mm64=TASK_0, task_1_mm96=TASK_1))
    ).logs
    found = examples.trials(examples.everything(log))
    assert [(task.name, task.flop, task.weight) for task in log.tasks.values()] == [
        ("mm64", 528384, 3),
        ("mm96", 1778688, 1),
    ]
    timeout, running = "LocalBuilder: Timeout, killed after 30.0 seconds", "CUDA: an illegal memory access"
    assert [(trial.error_kind, trial.error) for trial in found] == [
        (None, None),
        ("build_timeout", timeout),
        ("run", running),
        ("run", running),
        (None, None),
    ]
    assert [trial.timestamp and trial.timestamp - 1795228086 for trial in found] == [0, 0, 24, 24, 60]
    assert [remark.text for remark in log.remarks] == ["the times in the logs have no time zone; they were read as UTC"]


def test_tables_alone_tell_names_flop_and_weights(tmp_path: Path) -> None:
    (log,) = open_logs(sources(work_dir(tmp_path, task_scheduler=SCHEDULER))).logs
    found = examples.trials(examples.everything(log))
    assert [(task.name, task.weight) for task in log.tasks.values()] == [("mm64", 3), ("mm96", 1)]
    assert {trial.timestamp for trial in found} == {None}


def test_logs_of_other_records_are_said_to_fit_none(tmp_path: Path) -> None:
    other = TASK_0.replace("3000.0000 us", "1234.0000 us")
    (log,) = open_logs(sources(work_dir(tmp_path, task_0_mm64=other))).logs
    examples.everything(log)
    assert [task.name for task in log.tasks.values()] == [None, None]
    assert [remark.text for remark in log.remarks] == ["task #0 of the logs (mm64) fits no workload of the records"]


def test_logs_of_the_last_session_belong_to_the_last_records(tmp_path: Path) -> None:
    last = "".join(line for line in TASK_0.splitlines(keepends=True) if "Trial #3" in line or "Initializing" in line)
    (log,) = open_logs(sources(work_dir(tmp_path, task_0_mm64=last))).logs
    found = examples.trials(examples.everything(log))
    assert [trial.timestamp is None for trial in found] == [True, True, True, True, False]


def test_sessions_are_those_of_the_logs(tmp_path: Path) -> None:
    again = TASK_0.replace(
        "2026-11-21 02:29", '2026-11-21 02:28:50 [INFO] Initializing Task #0: "mm64"\n2026-11-21 02:29'
    )
    (log,) = open_logs(sources(work_dir(tmp_path, task_0_mm64=again, task_1_mm96=TASK_1))).logs
    examples.everything(log)
    assert [session.first for session in log.sessions] == [1, 5]


def test_logs_without_records_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "task_scheduler.log").write_text(SCHEDULER)
    (skipped,) = open_logs(sources(tmp_path)).skipped
    assert "the records that it tells of are missing" in skipped.reason


def test_tvm_0_9_logs_are_read(tmp_path: Path) -> None:
    text = """\
2022-08-01 10:00:00 INFO Initializing Task #0: "main"
2022-08-01 10:00:09 INFO [Task #0: "main"] Trial #0: GFLOPs: 2.4100. Time: 3.0000 ms. Best GFLOPs: 2.4100
2022-08-01 10:00:09 INFO [Task #0: "main"] Trial #1: Error in building:
no compiler
2022-08-01 10:00:09 INFO [Task #0: "main"] Trial #2: GFLOPs: 2.4100. Time: 3.5000 ms. Best GFLOPs: 2.4100
"""
    (log,) = open_logs(sources(work_dir(tmp_path, task_0_main=text))).logs
    found = examples.trials(examples.everything(log))
    assert next(iter(log.tasks.values())).name == "main"
    assert [trial.error for trial in found if trial.error] == ["no compiler"]


def test_a_record_of_packed_weights_is_its_workloads() -> None:
    packed = [["TENSOR", "float32", [64, 64]], ["TENSOR", "float32", [8, 64, 8]]]
    (log,) = examples.open_text(
        database_tuning_record=lines(meta_schedule(args=packed)), database_workload=lines(workload("111"))
    ).logs
    (trial,) = examples.trials(examples.everything(log))
    assert [arg.shape for arg in log.tasks[trial.task].args] == [(64, 64), (64, 64)]


def test_hashes_are_those_that_engines_report() -> None:
    decimal = "15277933882451038982"
    files = {"database_tuning_record": lines(meta_schedule()), "database_workload": lines(workload(decimal))}
    (log,) = examples.open_text(**files).logs
    examples.everything(log)
    assert [task.workload_hash for task in log.tasks.values()] == ["0xd4061feb8d661306"]
