"""`manage.py seed_trials`: synthetic runs that look like measured ones."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from pytest_django.asserts import assertContains

from tests.world import claimed, make_run, make_user
from tuning.actions import runs
from tuning.engines.wire.protocol import Event
from tuning.models import Run, RunDelta, Task, Trial, TrialError, estimated_latency, level_of_detail
from tuning.reads.artifacts import compile_trouble
from tuning.reads.curves import curves
from tuning.validation import Conflict
from tuning.work import synthetic
from tuning.work.recorder import Recorder

pytestmark = pytest.mark.django_db


def seed(*arguments: str) -> str:
    out = io.StringIO()
    call_command("seed_trials", *arguments, stdout=out, no_color=True)
    return out.getvalue()


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic, "BATCH", 100)


def test_it_prints_the_id_of_a_finished_synthetic_run(small_batches: None) -> None:
    run = Run.objects.get(pk=int(seed("--trials", "450", "--tasks", "5")))
    assert (run.status, run.synthetic, run.finish_reason) == ("finished", True, "budget")
    assert (run.trials_done, run.trials_budget, run.tasks_measured) == (450, 450, 5)
    assert run.finished_at is not None
    assert run.started_at is not None
    assert (run.finished_at - run.started_at).total_seconds() == pytest.approx(run.elapsed_s)


def test_its_rows_are_the_ones_that_the_recorder_writes(small_batches: None) -> None:
    run = synthetic.seed_run(450, 5)
    best: dict[int, float] = {}
    for trial in run.trials.order_by("number"):
        assert trial.lod == level_of_detail(trial.number)
        latency_s = None if trial.short else trial.latency_s
        improves = latency_s is not None and latency_s < best.get(trial.task_id, 1e9)
        assert trial.improved is improves
        if latency_s is not None and improves:
            best[trial.task_id] = latency_s
    assert best == dict(run.tasks.values_list("pk", "best_latency_s"))
    assert run.estimated_latency_s == pytest.approx(estimated_latency(run.tasks.all()))
    assert run.trials.filter(latency_s=None).count() == run.trials_failed == 104
    assert sum(error.count for error in run.errors.all()) == run.trials_failed
    assert not run.trials.filter(error_kind__isnull=False, error=None).exists()
    assert list(run.trials.values_list("number", flat=True)) == list(range(1, 451))


def test_its_curves_fall_as_measured_ones_do() -> None:
    estimate = curves(synthetic.seed_run(2000, 4))["estimate"]["latency_s"]
    assert estimate == sorted(estimate, reverse=True)
    assert len(estimate) == 110


def test_the_same_seed_gives_the_same_curves() -> None:
    runs = [synthetic.seed_run(100, 3, seed=number) for number in (7, 7, 8)]
    first, again, other = (list(run.trials.values_list("latency_s", flat=True)) for run in runs)
    assert first == again
    assert first != other


def test_it_makes_many_small_runs() -> None:
    ids = [int(line) for line in seed("--trials", "3", "--tasks", "2", "--runs", "4").split()]
    assert list(Run.objects.order_by("pk").values_list("pk", flat=True)) == ids
    assert len(ids) == 4


def test_it_reports_how_fast_it_was() -> None:
    told = json.loads(seed("--trials", "20", "--tasks", "2", "--runs", "2", "--json"))
    assert len(told["runs"]) == 2
    assert told["trials_a_second"] == pytest.approx(40 / told["seconds"])


@pytest.mark.parametrize("option", ["--trials", "--tasks", "--runs"])
def test_it_refuses_sizes_that_make_no_sense(option: str) -> None:
    with pytest.raises(CommandError, match=option) as refused:
        seed(option, "0")
    assert refused.value.returncode == 2
    assert not Run.objects.exists()


def test_it_leaves_nothing_of_a_run_that_is_interrupted(small_batches: None, monkeypatch: pytest.MonkeyPatch) -> None:
    record, seen = Recorder.record, iter(range(3))

    def interrupted(self: Recorder, events: Sequence[Event]) -> RunDelta:
        if next(seen) == 2:
            raise KeyboardInterrupt
        return record(self, events)

    monkeypatch.setattr(Recorder, "record", interrupted)
    with pytest.raises(KeyboardInterrupt):
        synthetic.seed_run(450, 5)
    assert not any(model.objects.exists() for model in (Run, Task, Trial, TrialError))


def test_it_refuses_to_run_twice_at_once() -> None:
    claimed(make_run(device=synthetic.NAME))
    with pytest.raises(CommandError, match="is being made"):
        seed("--trials", "3", "--tasks", "1")
    assert Run.objects.count() == 1


def test_it_can_neither_be_continued_nor_compiled() -> None:
    run = synthetic.seed_run(20, 2)
    assert not run.can_extend
    Run.objects.update(status="interrupted", trials_budget=30)
    run.refresh_from_db()
    assert not run.can_resume
    with pytest.raises(Conflict, match="synthetic"):
        runs.resume(run)
    with pytest.raises(Conflict, match="synthetic"):
        runs.extend(run, {"trials": 5})
    assert "synthetic" in (compile_trouble(run) or "")


@pytest.mark.parametrize("path", ["/runs/", "/runs/{run}/", "/runs/{run}/trials/", "/runs/{run}/tasks/0/"])
def test_every_page_of_it_is_marked(client: Client, path: str) -> None:
    client.force_login(make_user("viewer"))
    page = client.get(path.format(run=synthetic.seed_run(20, 2).pk))
    assertContains(page, '<span class="tag">synthetic</span>')
