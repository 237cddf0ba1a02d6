"""The job that measures runs side by side, from claim to end, whatever happens to its process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.threads import when
from tests.world import make_machine, measured_run, set_beside
from tuning.actions.comparing import side_by_side
from tuning.host import sandbox
from tuning.models import Record, Run, SideBySide, Task
from tuning.queue import jobs
from tuning.work import side_by_side as work
from tuning.work.best_records import best_by_function

pytestmark = pytest.mark.django_db(transaction=True)
Status = SideBySide.Status
Measurer = Callable[[str], None]


@pytest.fixture
def measurer(monkeypatch: pytest.MonkeyPatch) -> Measurer:
    """Measures without TVM. Call it to make the next process misbehave (see `tests.fake_measurer`)."""
    monkeypatch.setattr(work, "MEASURER", "tests.fake_measurer")
    monkeypatch.setattr(sandbox, "PULSE_S", 0.05)
    monkeypatch.setattr(jobs, "enqueue", lambda _: None)
    monkeypatch.delenv("TVM_FAKE_MEASURER", raising=False)
    return lambda how: monkeypatch.setenv("TVM_FAKE_MEASURER", how)


def ended(*, other_schedules: bool = False) -> Run:
    """A run with two tasks. Its records have other schedules than those of other runs, or the same."""
    run = measured_run()
    run.move(Run.Status.RUNNING, to=Run.Status.FINISHED)
    if other_schedules:
        for record in Record.objects.filter(task__run=run):
            Record.objects.filter(pk=record.pk).update(text=record.text.replace('"b0"', f'"b{1000 + run.pk}"'))
    return run


def queued(*, other_schedules: bool = True) -> SideBySide:
    return set_beside([ended(), ended(other_schedules=other_schedules)])


def carried_out(row: SideBySide, shutdown: threading.Event | None = None) -> str:
    assert row.claim()
    return work.carry_out(row, shutdown or threading.Event())


def test_it_measures_the_best_record_of_each_run_and_task(measurer: Measurer) -> None:
    row = queued()
    assert carried_out(row) == "finished"
    row.refresh_from_db()
    first, second = row.run_keys
    shown = [(one["workload_hash"][-1], one["run"], one["trial"]) for one in row.measured]
    assert sorted(shown) == [("0", first, 3), ("0", second, 3), ("1", first, 2), ("1", second, 2)]
    assert sorted(one["latencies_s"][0] for one in row.measured) == pytest.approx([1e-3, 2e-3, 3e-3, 4e-3])
    assert {len(one["latencies_s"]) for one in row.measured} == {5}
    assert (row.error, row.phase, row.progress) == (None, None, None)
    assert row.versions == {"apache-tvm": "0.27.0.post1"}
    assert row.finished_at


@pytest.mark.parametrize(
    ("load", "told"),
    [({"others_cores": 1.5, "cpus": 2}, (1.5, 2, True)), ({}, (None, None, False))],
    ids=["busy", "tells nothing"],
)
def test_it_keeps_what_others_used_of_the_machine_meanwhile(
    measurer: Measurer, load: dict[str, Any], told: tuple[float | None, int | None, bool]
) -> None:
    row = queued()
    assert row.claim()
    SideBySide.objects.filter(pk=row.pk).update(machine=make_machine(load=load))
    assert work.carry_out(row, threading.Event()) == "finished"
    row.refresh_from_db()
    assert (row.others_cores, row.cpus, row.is_disturbed) == told


def test_those_of_a_task_stand_side_by_side() -> None:
    runs = [ended(other_schedules=True) for _ in range(3)]
    entries, texts = work.chosen({run.pk: best_by_function(run) for run in runs})
    assert [entry.place for entry in entries] == list(range(6)) == list(range(len(texts)))
    assert [entry.run for entry in entries] == [run.pk for run in runs] * 2
    assert entries[0].function == entries[2].function != entries[3].function


def test_a_function_is_measured_by_the_algorithm_that_each_run_prefers() -> None:
    direct, other = ended(), ended(other_schedules=True)
    first, second = other.tasks.order_by("index")
    other.tasks.filter(pk=second.pk).update(computes=first.workload_hash, weight=1)
    other.tasks.filter(pk=first.pk).update(weight=0)
    entries, _ = work.chosen({run.pk: best_by_function(run) for run in (direct, other)})
    assert {entry.function for entry in entries} == {first.workload_hash}
    assert [(entry.run, entry.trial) for entry in entries] == [
        (direct.pk, direct.tasks.get(index=0).best_trial),
        (other.pk, other.tasks.get(index=1).best_trial),
    ]


def test_identical_schedules_are_measured_once(measurer: Measurer) -> None:
    row = queued(other_schedules=False)
    assert carried_out(row) == "finished"
    row.refresh_from_db()
    assert len({tuple(one["latencies_s"]) for one in row.measured}) == 2, "one for each task"
    assert len(row.measured) == 4


def test_a_task_without_a_record_of_each_run_is_left_out(measurer: Measurer) -> None:
    row = queued()
    Record.objects.filter(task__run=row.run_keys[1], task__index=1).delete()
    assert carried_out(row) == "finished"
    row.refresh_from_db()
    assert {one["workload_hash"][-1] for one in row.measured} == {"0"}
    Record.objects.filter(task__run=row.run_keys[0], task__index=0).delete()
    again = set_beside(list(row.runs.all()))
    assert carried_out(again) == "failed"
    again.refresh_from_db()
    assert again.error == "There is no task of which each of these runs has a valid record."


@pytest.mark.parametrize(
    ("tasks", "asked_for"),
    [
        ({}, [4096] * 4),
        ({(1, 0): 1024}, [1024, 1024, 4096, 4096]),
        ({(0, 0): 1024, (1, 0): 2048, (0, 1): 512, (1, 1): 512}, [2048, 2048, 512, 512]),
    ],
    ids=["of earlier versions", "one tells it of one task", "all tell it"],
)
def test_those_of_a_task_are_measured_as_cold_as_any_was(
    tasks: dict[tuple[int, int], int], asked_for: list[int], measurer: Measurer, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, asked, ask = queued(), [], sandbox.ask

    def listening(module: str, question: Any, *rest: Any, **limits: Any) -> Any:
        asked.append(question)
        return ask(module, question, *rest, **limits)

    monkeypatch.setattr(sandbox, "ask", listening)
    Run.objects.filter(pk=row.run_keys[1]).update(cold_bytes=4096)
    for (nth, index), cold_bytes in tasks.items():
        Task.objects.filter(run=row.run_keys[nth], index=index).update(cold_bytes=cold_bytes)
    assert carried_out(row) == "finished"
    assert [question.cold_bytes for question in asked] == [asked_for]


def test_a_record_that_fails_costs_only_itself(measurer: Measurer) -> None:
    measurer("1")
    row = queued()
    assert carried_out(row) == "finished"
    row.refresh_from_db()
    assert [bool(one["error"]) for one in row.measured] == [False, True, False, False]
    assert [len(one["latencies_s"]) for one in row.measured] == [5, 0, 5, 5]


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("0,1,2,3", "None of the records could be measured. The first: The run process was killed by SIGSEGV."),
        ("refuse", "This machine can't measure for the target."),
        ("kill", "TVM crashed at the step “Measuring”: its process was killed by SIGSEGV."),
    ],
)
def test_without_a_result_it_says_why(measurer: Measurer, how: str, error: str) -> None:
    measurer(how)
    row = queued()
    assert carried_out(row) == "failed"
    row.refresh_from_db()
    assert (row.error, row.measured) == (error, [])


def test_it_is_cancelled_while_it_measures(measurer: Measurer) -> None:
    measurer("hang")
    row = queued()

    def cancel() -> None:
        side_by_side.cancel(SideBySide.objects.get(pk=row.pk))

    cancelling = when(lambda: SideBySide.objects.filter(phase="measuring").exists(), cancel)
    assert carried_out(row) == "cancelled"
    cancelling.join()


def test_at_shutdown_it_is_queued_again(measurer: Measurer) -> None:
    measurer("hang")
    row, shutdown = queued(), threading.Event()
    ending = when(lambda: SideBySide.objects.filter(phase="measuring").exists(), shutdown.set)
    assert carried_out(row, shutdown) == "queued"
    ending.join()
    row.refresh_from_db()
    assert (row.phase, row.progress, row.enqueued_at) == (None, None, None)
    assert row.claim()


def test_one_that_was_removed_with_a_run_leaves_nothing(measurer: Measurer) -> None:
    measurer("hang")
    row = queued()
    removing = when(
        lambda: SideBySide.objects.filter(phase="measuring").exists(), lambda: SideBySide.objects.all().delete()
    )
    assert carried_out(row) == "gone"
    removing.join()
