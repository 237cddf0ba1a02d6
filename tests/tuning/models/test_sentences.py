"""What pages say of a run depends on who tunes it."""

from __future__ import annotations

import pytest

from tests.world import claimed, make_run, make_tasks
from tuning.models import Run
from tuning.work.failures import nothing_valid

pytestmark = pytest.mark.django_db


def words_of(origin: str, status: str, **values: object) -> tuple[str, str]:
    """The phase and the coverage."""
    device = "cpu" if origin == "launched" else ""
    run = make_run(origin=origin, status=status, device=device, **values)
    words = run.to_dict(tasks=[])["words"]
    return words["phase"], words["coverage"]


@pytest.mark.parametrize(
    ("origin", "status", "phase", "words"),
    [
        ("launched", "queued", None, "queued: next on this device"),
        ("launched", "running", "loading", "loading TVM and the network"),
        ("launched", "running", "confirming", "confirming the best records"),
        ("launched", "stopping", None, "stopping after the trial being measured"),
        ("imported", "running", "loading", "reading its log"),
        ("watched", "queued", None, "queued: waiting for a worker"),
        ("watched", "running", "loading", "reading its file"),
        ("watched", "running", "quiet", "no new trial for ten minutes"),
        ("watched", "stopping", None, "no longer watched"),
        ("streamed", "stopping", None, "stopping after the batch that its script measures"),
    ],
)
def test_what_it_is_doing(origin: str, status: str, phase: str | None, words: str) -> None:
    assert words_of(origin, status, phase=phase)[0] == words


def test_only_tasks_of_this_sites_runs_are_extracted() -> None:
    assert words_of("launched", "queued")[1] == "tasks not extracted yet"
    assert words_of("streamed", "running")[1] == "no tasks yet"


@pytest.mark.parametrize(
    ("status", "tasks", "coverage", "unknown"),
    [
        ("running", (13, 18, 18), "5 of 18 tasks not measured yet", "unknown: 5 of 18 tasks not measured yet"),
        ("failed", (13, 18, 18), "5 of 18 tasks not measured", "unknown: 5 of 18 tasks not measured"),
        (
            "running",
            (1, 3, 18),
            "covers the chosen 3 of 18 tasks: 2 of 3 tasks not measured yet",
            "unknown: 2 of 3 tasks not measured yet",
        ),
        ("running", (18, 18, 18), "18 of 18 tasks measured", ""),
        ("running", (0, 0, 0), "tasks not extracted yet", ""),
    ],
)
def test_what_the_estimate_lacks(status: str, tasks: tuple[int, int, int], coverage: str, unknown: str) -> None:
    measured, chosen, total = tasks
    latency = 1e-3 if measured == chosen == 18 else None
    run = make_run(
        status=status, tasks_measured=measured, tasks_chosen=chosen, tasks_total=total, estimated_latency_s=latency
    )
    words = run.to_dict(tasks=[])["words"]
    assert (words["coverage"], words["unknown"], run.unknown) == (coverage, unknown, unknown)


def test_without_weights_there_never_is_an_estimate() -> None:
    run = make_run(status="finished", tasks_measured=2, tasks_chosen=2, tasks_total=2)
    words = run.to_dict(tasks=[])["words"]
    assert (words["coverage"], words["unknown"]) == ("2 of 2 tasks measured; their weights aren't recorded", "")


def test_only_this_sites_runs_try_a_task_again() -> None:
    run = claimed(make_run())
    (task,) = make_tasks(run, 1)
    task.trials = task.failed = 2
    assert "tried again" in run.alerts([task])[0]["message"]
    run.origin = Run.Origin.STREAMED
    assert run.alerts([task])[0]["message"].endswith("so there is no estimate.")


def test_why_nothing_was_valid() -> None:
    run = make_run(trials_budget=10_000)
    assert "the engine found no candidate" in nothing_valid(run, "budget")
    assert nothing_valid(run, "time_limit").startswith("No trial was measured within the time limit.")
    run.origin = Run.Origin.STREAMED
    assert nothing_valid(run) == "No trial was measured."
    run.trials_done = run.trials_failed = 7296
    assert nothing_valid(run) == "None of the 7,296 trials was valid."


@pytest.mark.parametrize(
    ("noise", "estimate", "said"), [(0.02, 5e-3, "±\u00a02\u00a0%"), (0.02, None, ""), (None, 5e-3, "")]
)
def test_it_says_how_noisy_an_estimate_is(noise: float | None, estimate: float | None, said: str) -> None:
    assert make_run(noise=noise, estimated_latency_s=estimate).to_dict(tasks=[])["words"]["noise"] == said
