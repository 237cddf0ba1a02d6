"""What a comparison concludes."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from dashboard.presentation.comparing.concluding import conclusions
from tests.tuning.reads.test_comparing import compared, measured
from tests.world import make_network, measured_beside, task_infos
from tuning.models import Run

pytestmark = pytest.mark.django_db
NBSP = "\u00a0"


def concluded(*runs: Run) -> tuple[str, str]:
    """What is said of the second run, with plain spaces and the runs named A and B."""
    found = conclusions(compared(*runs))[0]
    text = found.text.replace(NBSP, " ")
    for run, name in zip(runs, "AB", strict=False):
        text = text.replace(f"#{run.pk}", name)
    return text, found.tone


def tasks(latencies_ms: Iterable[float], first: float = 100.0) -> Run:
    """A run with tasks of these weighted latencies, after a large one that is the same in all of them."""
    parts = [first, *latencies_ms]
    infos = task_infos(len(parts))
    return measured([(info.index, part * 1e-3 / info.weight) for info, part in zip(infos, parts, strict=True)], infos)


def test_it_says_which_tasks_make_the_gain() -> None:
    text, tone = concluded(tasks((10, 10, 10)), tasks((4, 8, 9)))
    assert text.startswith("B takes 6.9 % less time than A: 121.0 ms instead of 130.0 ms.")
    assert text.endswith("Task 1 makes 66.7 % of the gain.")
    assert tone == "good"
    assert concluded(tasks((4, 8, 9)), tasks((10, 11, 10)))[0].endswith("Task 1 makes 60.0 % of the loss.")


def test_a_gain_can_be_spread_over_many_tasks() -> None:
    text, _ = concluded(tasks([10] * 10), tasks([9] * 10))
    assert text.endswith("The gain is spread over 10 tasks; the largest part, 10.0 %, is task 1’s.")


def test_it_says_what_works_against_the_gain() -> None:
    text, tone = concluded(tasks((10, 10, 10)), tasks((4, 8, 12)))
    assert text.endswith("Task 1 makes 75.0 % of the gain; another one takes 2.000 ms more.")
    assert tone == "good"
    text, tone = concluded(tasks((4, 8, 12, 12)), tasks((14, 8, 11, 11)))
    assert text.endswith("Task 1 makes 100.0 % of the loss; 2 others take 2.000 ms less.")
    assert tone == "bad"


def test_several_tasks_are_named_if_few_make_most_of_it() -> None:
    text, _ = concluded(tasks((10, 10, 10, 10)), tasks((7, 8, 8, 8)))
    assert text.endswith("Tasks 1 and 2 make 55.6 % of the gain.")


def test_a_difference_within_noise_is_none() -> None:
    one, other = tasks((10, 10)), tasks((8, 10))
    assert concluded(one, other)[0] == (
        "B takes 1.7 % less time than A: 118.0 ms instead of 120.0 ms. The noise of these measurements isn’t recorded, "
        "so that may be chance. Task 1 makes 100.0 % of the gain."
    )
    Run.objects.filter(pk=one.pk).update(noise=0.012)
    Run.objects.filter(pk=other.pk).update(noise=0.016)
    assert concluded(one, other) == (
        "B takes 1.7 % less time than A: 118.0 ms instead of 120.0 ms. That is within noise (± 2 %): neither is faster.",
        "",
    )
    Run.objects.filter(pk=other.pk).update(noise=0.005)
    text, tone = concluded(one, other)
    assert text.endswith("120.0 ms. Task 1 makes 100.0 % of the gain.")
    assert tone == "good"


def test_what_was_measured_side_by_side_decides() -> None:
    """Whatever the estimates of two days say, and whatever their noise."""
    one, other = tasks((10, 10)), tasks((8, 10))
    rounds = [1e-3, 1.02e-3, 0.98e-3, 1.01e-3, 0.99e-3]
    same = {(place, index): rounds for place in (0, 1) for index in range(3)}
    measured_beside([one, other], same | {(1, 2): [part * 1.2 for part in rounds]})
    text, tone = concluded(one, other)
    assert text.startswith("Measured side by side, B takes 10.0 % more time than A: 6.600 ms instead of 6.000 ms.")
    assert text.endswith("Task 2 makes 100.0 % of the loss.")
    assert tone == "bad"


def test_equal_runs_are_called_so() -> None:
    assert concluded(tasks((10,)), tasks((10,))) == ("B takes as long as A: 110.0 ms.", "")


def test_without_both_estimates_it_concludes_from_the_tasks_that_both_have_measured() -> None:
    whole, part = measured(((0, 1e-3), (1, 3e-3))), measured(((0, 2e-3), (1, None)))
    assert concluded(whole, part) == (
        "Over the one task that both have measured, B takes 100.0 % more time than A: 2.000 ms instead of 1.000 ms.",
        "bad",
    )
    other = measured(network=make_network("convnet"))
    assert concluded(whole, other)[0].startswith("Over the 2 tasks that both have measured, B takes as long as A")


def test_it_draws_no_conclusion_without_a_common_task() -> None:
    nothing = measured(((0, None), (1, None)))
    assert concluded(measured(), nothing) == ("B and A have measured no task in common.", "")


def test_of_a_live_run_it_concludes_so_far() -> None:
    one, live = measured(), measured(((0, 1e-3), (1, 2e-3)))
    Run.objects.filter(pk=live.pk).update(status="running", finished_at=None, lease="")
    assert concluded(one, live)[0].startswith("So far, B takes 28.6 % less time than A")


def test_each_run_but_the_baseline_has_its_own() -> None:
    runs = measured(), measured(), measured()
    found = conclusions(compared(*runs, baseline=runs[1]))
    assert [(one.run, one.place) for one in found] == [(runs[0].pk, 0), (runs[2].pk, 2)]
