"""The records of earlier runs that a run begins with."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.engine_fixtures import Play
from tests.tuning.work.test_supervisor import HELLO, tune
from tests.world import (
    TARGET,
    extracted,
    make_run,
    measured_run,
    record_text,
    task_infos,
    trial,
    write_record_files,
)
from tuning.engines.wire.protocol import Adapted, Finished, KnownRecord, Start, WarmStarted
from tuning.logs.meta_schedule import CONTINUED, RECORDS, WORKLOADS
from tuning.models import Run
from tuning.models.sentences import words
from tuning.reads.library import tvm
from tuning.work.engine_process import AnyStart
from tuning.work.starting import starting
from tuning.work.warm_start import MOST, warm_start, warm_starts

pytestmark = pytest.mark.django_db(transaction=True)


def ended(**values: Any) -> Run:
    run = measured_run(**values)
    run.move("running", to="finished")
    return run


def told(run: Run, tasks: int = 2) -> list[KnownRecord]:
    return warm_start(run, task_infos(tasks)).records


def test_it_gives_the_fastest_records_of_the_same_workloads_first() -> None:
    first, second = ended(), ended(latencies=[(0, 0.5e-3), (1, 9e-3)])
    assert [(one.task, one.run, one.text) for one in told(make_run())] == [
        (0, second.pk, record_text(0, 0.0005)),
        (0, first.pk, record_text(0, 0.001)),
        (0, first.pk, record_text(0, 0.002)),
        (1, first.pk, record_text(1, 0.003)),
        (1, second.pk, record_text(1, 0.009)),
    ]


def test_records_for_another_target_do_not_apply() -> None:
    ended(target=TARGET | {"mcpu": "znver5"}, device="other")
    assert told(make_run(target=TARGET | {"mcpu": "znver3"})) == []


def test_a_targets_order_does_not_matter() -> None:
    ended()
    assert told(make_run(target=dict(reversed(TARGET.items()))))


def test_other_workloads_synthetic_runs_and_the_run_itself_do_not_count() -> None:
    run = ended()
    assert told(run) == []
    Run.objects.update(synthetic=True)
    assert told(make_run()) == []
    Run.objects.update(synthetic=False)
    other = [msgspec.structs.replace(task_infos(1)[0], workload_hash="ff")]
    assert warm_start(make_run(), other).records == []


def test_only_chosen_tasks_get_records() -> None:
    ended()
    first, second = task_infos(2)
    told_of = [first, msgspec.structs.replace(second, chosen=False)]
    assert {one.task for one in warm_start(make_run(), told_of).records} == {0}


def test_the_number_of_records_is_limited() -> None:
    for nth in range(3):
        ended(latencies=[(0, 1e-3 * (10 * nth + one + 1)) for one in range(8)])
    assert len(told(make_run(), tasks=1)) == MOST


def test_the_engine_gets_records_and_the_run_stores_which_it_used(play: Play) -> None:
    earlier = ended()
    used = WarmStarted([0, 1], [earlier.pk])
    play(HELLO, extracted(), {"do": "warm_start"}, used, trial(0), trial(1), Finished("budget"))
    run = tune(make_run(trials_budget=2))
    assert run.status == "finished"
    assert repr(KnownRecord(0, earlier.pk, record_text(0, 0.001), 0.001)) in run.console_log.read_text()
    assert run.warm_start == {"tasks": [0, 1], "runs": [earlier.pk]}
    assert run.trials_done == 2


def test_tasks_without_records_get_those_of_similar_ones() -> None:
    earlier = ended(versions={"apache-tvm": str(tvm())})
    known, unknown = task_infos(2)
    others = [known, msgspec.structs.replace(unknown, workload_hash="ff", name="fused_matmul17")]
    run = make_run(options={"transfer": True})
    assert [(one.task, one.run, one.text) for one in warm_start(run, others).similar] == [
        (1, earlier.pk, record_text(0, 0.001)),
        (1, earlier.pk, record_text(1, 0.003)),
    ]
    assert warm_start(make_run(), others).similar == [], "runs from before the option existed don't"
    assert warm_starts(make_run(options={"transfer": True, "warm_start": False}))
    assert not warm_starts(make_run(options={"transfer": False, "warm_start": False}))


def test_the_run_stores_which_tasks_began_with_adapted_schedules(play: Play) -> None:
    play(HELLO, extracted(), {"do": "warm_start"}, Adapted([1], [5]), trial(0), trial(1), Finished("budget"))
    run = tune(make_run(trials_budget=2))
    assert run.adapted == {"tasks": [1], "runs": [5]}
    said = words(run.to_dict(tasks=[]))["warm_start"]
    assert said == "1 of 2 tasks start from schedules for other shapes, of run 5"
    run.warm_start = {"tasks": [0], "runs": [5, 6]}
    said = words(run.to_dict(tasks=[]))["warm_start"]
    assert said == "1 of 2 tasks start from records of runs 5 and 6, 1 from schedules for other shapes, of run 5"


def test_records_of_the_run_that_is_continued_come_before_faster_ones_of_others() -> None:
    slow, fast = ended(), ended(latencies=[(0, 0.5e-3)])
    run = make_run(continues=slow)
    own = [(0, slow.pk, 1e-3), (0, slow.pk, 2e-3)]
    known = [*own, (0, fast.pk, 0.5e-3), (1, slow.pk, 3e-3)]
    assert [(one.task, one.run, one.text) for one in told(run)] == [
        (task, key, record_text(task, latency_s)) for task, key, latency_s in known
    ]
    run.options = {"warm_start": False}
    assert {one.run for one in told(run)} == {slow.pk}
    assert warm_starts(run)


def test_the_engine_gets_the_record_files_of_the_run_that_is_continued() -> None:
    earlier = ended()
    write_record_files(earlier)
    run = make_run(continues=earlier)
    start = _start_of(run)
    assert isinstance(start, Start)
    assert (start.continued, start.expect_warm_start) == (earlier.pk, True)
    folder = run.work_dir / CONTINUED
    for name in (RECORDS, WORKLOADS):
        assert (folder / name).read_bytes() == (earlier.work_dir / name).read_bytes()
    (earlier.work_dir / RECORDS).unlink()
    assert _start_of(run) == start, "a resumed run has them already"


def test_a_run_whose_predecessor_has_no_records_fails_and_says_so(play: Play) -> None:
    earlier = ended()
    play(HELLO)
    run = tune(make_run(continues=earlier))
    assert run.status == "failed"
    assert run.error is not None
    assert f"run {earlier.pk}, which it continues, has no " in run.error
    assert not (run.work_dir / CONTINUED).exists()


def test_the_engine_gets_no_records_if_warm_start_is_off() -> None:
    ended()
    assert _start_of(make_run(options={"warm_start": False})).expect_warm_start is False
    assert _start_of(make_run()).expect_warm_start is True


def _start_of(run: Run) -> AnyStart:
    return starting(run, 0.0)[0]
