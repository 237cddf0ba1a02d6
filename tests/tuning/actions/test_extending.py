"""Give a run more trials or more time, before, during and after tuning."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.engine_fixtures import Play
from tests.tuning.work.test_supervisor import BEGINNING, tune, when_recorded
from tests.world import claimed, make_run, measured_run, trial
from tuning.actions.runs import extend, resume
from tuning.engines.wire.protocol import Finished, Plateaued
from tuning.models import Run
from tuning.queue import jobs
from tuning.validation import Conflict, Invalid
from tuning.work.starting import starting
from tuning.work.supervisor import _Supervision

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def queued(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Ids of enqueued runs."""
    told: list[int] = []
    monkeypatch.setattr(jobs, "enqueue", lambda run: told.append(run.pk))
    return told


@pytest.mark.parametrize("status", ["finished", "stopped", "failed", "interrupted"])
def test_a_run_that_ended_is_queued_again(status: str, queued: list[int]) -> None:
    run = measured_run(trials_budget=3)
    run.move("running", to=status, finish_reason="budget", error="why")
    extend(run, {"trials": "5"})
    run.refresh_from_db()
    assert (run.status, run.trials_budget, run.trials_done) == ("queued", 8, 3)
    assert (run.finish_reason, run.finished_at, run.error) == (None, None, None)
    assert queued == [run.pk]


def test_a_queued_run_keeps_its_place(queued: list[int]) -> None:
    run = make_run(time_limit_s=60.0)
    extend(run, {"trials": 6, "time_s": 30})
    assert (run.status, run.trials_budget, run.time_limit_s) == ("queued", 70, 90.0)
    assert queued == []


def test_a_running_engine_is_told(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    play(*BEGINNING, {"do": "extended"}, trial(0, 1e-3), Finished("budget"))
    run = make_run(trials_budget=2, time_limit_s=50.0)
    when_recorded(monkeypatch, 2, lambda: extend(Run.objects.get(pk=run.pk), {"trials": 1, "time_s": 10}))
    run = tune(run)
    assert (run.status, run.trials_done, run.finish_reason) == ("finished", 3, "budget")
    assert run.console_log.read_text() == "Extend(trials_budget=3, time_limit_s=60.0)\n"


def test_a_run_extended_as_its_engine_ends_continues(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine ends before it is told of the extension."""
    play(*BEGINNING, Finished("budget"))
    run = make_run(trials_budget=2)

    def extended() -> None:
        extend(Run.objects.get(pk=run.pk), {"trials": 1})
        play(*BEGINNING, trial(1, 1e-3), Finished("budget"))

    move, due = Run.move, [extended]

    def watched(self: Run, *sources: str, to: str, **values: Any) -> bool:
        if to == "finished" and due:
            due.pop()()
        return move(self, *sources, to=to, **values)

    monkeypatch.setattr(Run, "move", watched)
    run = tune(run)
    assert (run.status, run.trials_done) == ("finished", 3)


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        ({}, "trials", "how many"),
        ({"trials": 0}, "trials", "from 1"),
        ({"trials": "many"}, "trials", "whole number"),
        ({"trials": 10**6}, "trials", "1,000,003"),
        ({"time_s": 60}, "time_s", "no time limit"),
        ({"steps": 3}, "steps", "no such option"),
    ],
)
def test_it_names_what_is_wrong(given: dict[str, Any], field: str, words: str) -> None:
    run = measured_run(trials_budget=3)
    with pytest.raises(Invalid) as raised:
        extend(run, given)
    assert list(raised.value.fields) == [field]
    assert words in raised.value.fields[field]
    run.refresh_from_db()
    assert (run.trials_budget, run.status) == (3, "running")


def test_a_run_at_its_time_limit_needs_a_higher_one(queued: list[int]) -> None:
    run = measured_run(time_limit_s=10.0)
    run.move("running", to="finished", elapsed_s=12.0)
    with pytest.raises(Invalid, match="tuned for 12 s already"):
        extend(run, {"trials": 9})
    extend(run, {"time_s": 5})
    assert (run.status, run.time_limit_s) == ("queued", 15.0)


def test_a_stopping_run_cannot_be_extended() -> None:
    run = measured_run()
    run.move("running", to="stopping")
    with pytest.raises(Conflict, match="stopping"):
        extend(run, {"trials": 1})


@pytest.mark.parametrize("reason", ["budget", "time_limit", "plateau", "exhausted"])
def test_it_stores_why_the_engine_ended(play: Play, reason: Any) -> None:
    play(*BEGINNING, Finished(reason))
    run = tune(make_run())
    assert (run.status, run.finish_reason) == ("finished", reason)
    assert run.to_dict(tasks=())["finish_reason"] == reason


def test_resuming_clears_plateaus(play: Play, queued: list[int]) -> None:
    play(*BEGINNING, Plateaued(1), Finished("plateau"))
    run = tune(make_run())
    assert list(run.tasks.values_list("plateaued", flat=True)) == [False, True]
    play(*BEGINNING, {"do": "kill"})
    extend(run, {"trials": 1})
    run = tune(run)
    assert list(run.tasks.values_list("plateaued", flat=True)) == [False, False]


def test_the_engine_gets_the_time_limit_and_the_elapsed_time(play: Play) -> None:
    run = make_run(time_limit_s=60.0, elapsed_s=20.0)
    supervision = _Supervision(claimed(run), threading.Event())
    start, *_ = starting(run, supervision._elapsed_s())
    assert start.time_limit_s == 60.0
    assert 20.0 <= start.elapsed_s < 30.0


def test_resume_clears_the_finish_reason(queued: list[int]) -> None:
    run = measured_run()
    run.move("running", to="stopped", finish_reason="stopped")
    assert resume(run).finish_reason is None


def test_a_plateau_of_an_unknown_task_is_refused(play: Play) -> None:
    play(*BEGINNING, Plateaued(9), {"do": "ignore"})
    run = tune(make_run())
    assert run.status == "failed"
    assert "task 9" in str(run.error)
