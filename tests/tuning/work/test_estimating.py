"""The few points of its estimate's curve that a run stores."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.apps import apps

from tests.world import measured_run, record_trials
from tuning.models import Run
from tuning.work.estimating import FEWEST, grown


def test_points_are_added_until_there_are_many() -> None:
    curve: list[list[float]] = []
    for number in range(1, 2 * FEWEST):
        curve = grown(curve, [(number, 1.0 / number)])
    assert [number for number, _ in curve] == list(range(1, 2 * FEWEST))
    assert len(grown(curve, [(2 * FEWEST, 0.01)])) == FEWEST


@pytest.mark.parametrize("together", [1, 7, 5000])
def test_thinning_keeps_exact_points_and_the_end(together: int) -> None:
    points = [(number, 1.0 / number) for number in range(10, 5000, 3)]
    curve: list[list[float]] = []
    for first in range(0, len(points), together):
        curve = grown(curve, points[first : first + together])
    assert FEWEST <= len(curve) < 2 * FEWEST
    assert curve[-1] == [points[-1][0], float(f"{points[-1][1]:.5g}")]
    assert curve == sorted(curve)
    assert {(number, value) for number, value in curve} <= {(n, float(f"{v:.5g}")) for n, v in points}


@pytest.mark.django_db
def test_the_recorder_keeps_it_trial_by_trial() -> None:
    run = measured_run([(0, 2e-3), (0, None), (1, 3e-3), (0, 1e-3), (1, 9e-3)])
    assert run.estimates == [[3, 0.008], [4, 0.007]]
    record_trials(run, [(1, 1e-3)])
    assert run.estimates == [[3, 0.008], [4, 0.007], [6, 0.003]]
    assert run.estimated_latency_s == pytest.approx(0.003)


@pytest.mark.django_db
def test_a_run_from_before_there_were_curves_gets_the_same() -> None:
    run = measured_run([(0, 2e-3), (0, None), (1, 3e-3), (0, 1e-3), (1, 9e-3), (1, 1e-3)])
    Run.objects.update(estimates=[])
    import_module("tuning.migrations.0009_run_list").fill_estimates(apps, None)
    assert Run.objects.get().estimates == run.estimates
