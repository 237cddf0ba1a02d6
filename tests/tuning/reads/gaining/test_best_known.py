"""What other runs have reached for a run's tasks, and what equalling them would gain."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from tests.world import TARGET, make_machine, make_run, make_user, measured_run
from tuning.models import Project, Run, Task
from tuning.reads.gaining import Gain, verdict
from tuning.reads.library import tvm

pytestmark = pytest.mark.django_db
INSTALLED = {"apache-tvm": str(tvm())}
OWN = [(0, 4e-3), (1, 3e-3)]
"""Seconds; the first task weighs 1, the second 2, so the estimate is 10 ms."""


def ended(latencies: list[tuple[int, float | None]], **values: Any) -> Run:
    run = measured_run(latencies, **({"versions": INSTALLED} | values))
    run.move("running", to="finished")
    return run


@pytest.fixture
def run() -> Run:
    return ended([*OWN])


def gains(run: Run) -> list[Gain]:
    return verdict(run, None).gains


def known(run: Run) -> list[int | None]:
    """By task, the run that it compares with."""
    return [gain.best_known and gain.best_known["run"] for gain in gains(run)]


def test_each_task_is_compared_with_the_fastest_other_run(run: Run) -> None:
    first, second = ended([(0, 1e-3), (1, 9e-3)]), ended([(0, 2e-3), (1, 2.5e-3)])
    assert known(run) == [first.pk, second.pk]
    assert [gain.if_equalled_s for gain in gains(run)] == pytest.approx([3e-3, 1e-3])
    found = verdict(run, None)
    assert (found.if_equalled_s, found.if_equalled) == pytest.approx((4e-3, 0.4))
    assert gains(first)[0].if_equalled_s == 0, "nobody is faster"


def test_it_tells_where_it_comes_from(run: Run) -> None:
    other = ended([(1, 5e-3), (0, 1e-3)], name="the other")
    Run.objects.filter(pk=other.pk).update(machine=make_machine("lab-7"))
    assert verdict(run, None).to_dict()["tasks"][0]["best_known"] == {
        "run": other.pk,
        "run_name": "the other",
        "network": "mlp",
        "task": 0,
        "trial": 2,
        "latency_s": 1e-3,
        "machine": "lab-7",
        "tvm": tvm(),
    }


def test_nothing_is_known_without_another_run(run: Run) -> None:
    ended([(0, 1e-3)], target=TARGET | {"mcpu": "znver5"})
    Run.objects.exclude(pk=run.pk).update(target_fingerprint="another")
    ended([(0, 1e-3)], synthetic=True)
    deleted = ended([(0, 1e-3)])
    Run.objects.filter(pk=deleted.pk).update(deleted_at=timezone.now())
    ended([(0, None), (1, None)])
    imported = ended([(0, 1e-9), (1, 1e-9)])
    Run.objects.filter(pk=imported.pk).update(origin=Run.Origin.IMPORTED)
    assert known(run) == [None, None]
    found = verdict(run, None)
    assert (found.if_equalled_s, found.if_equalled) == (None, None)


@pytest.mark.parametrize(
    ("own", "others", "counts"),
    [(None, 0, True), (0, None, True), (1024, 4096, True), (1024, 0, False), (None, 1024, False)],
)
def test_only_runs_that_found_their_weights_where_it_did_count(
    run: Run, own: int | None, others: int | None, counts: bool
) -> None:
    other = ended([(0, 1e-3)], cold_bytes=others)
    Run.objects.filter(pk=run.pk).update(cold_bytes=own)
    run.refresh_from_db()
    assert known(run) == [other.pk if counts else None, None]


def test_a_synthetic_run_is_compared_with_nothing() -> None:
    ended([(0, 1e-3)])
    assert known(ended([*OWN], synthetic=True)) == [None, None]


def test_records_of_the_installed_tvm_come_first(run: Run) -> None:
    ended([(0, 1e-9)], versions={"apache-tvm": "0.1.0"})
    trusted = ended([(0, 3e-3)])
    assert known(run) == [trusted.pk, None]


def test_only_runs_that_the_user_sees_count(run: Run) -> None:
    stranger = make_user("viewer")
    hidden = Project.objects.create(name="hidden")
    ended([(0, 1e-3)], project=hidden)
    assert verdict(run, stranger).gains[0].best_known is None
    assert verdict(run, None).gains[0].best_known is not None


@pytest.mark.parametrize("values", [{"weight": None}, {"chosen": False}, {"best_latency_s": None, "best_trial": None}])
def test_without_weight_or_latency_no_gain_is_told(run: Run, values: dict[str, Any]) -> None:
    ended([(0, 1e-3), (1, 1e-3)])
    Task.objects.filter(run=run, index=0).update(**values)
    assert [gain.if_equalled_s for gain in gains(run)] == [None, 4e-3]


def test_a_run_without_tasks_has_nothing_to_gain() -> None:
    assert verdict(make_run(), None).to_dict()["tasks"] == []
