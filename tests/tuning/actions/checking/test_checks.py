"""Regression checks are made of a run, changed and deleted, and a mistake is named by its field."""

from __future__ import annotations

from datetime import time, timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.world import (
    make_check,
    make_compilation,
    make_machine,
    make_network,
    make_result,
    make_run,
    make_user,
    measured_run,
)
from tuning.actions import curation, projects
from tuning.actions.checking import checks
from tuning.actions.networks import uploading
from tuning.models import CheckResult, Project, RegressionCheck, Run
from tuning.queue import jobs
from tuning.reads.library import tvm
from tuning.validation import Conflict, Invalid

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "enqueue", lambda _: None)


@pytest.fixture
def run() -> Run:
    made = measured_run(versions={"apache-tvm": tvm()}, options={"trials_per_batch": 8, "seed": 7, "warm_start": False})
    made.move(Run.Status.RUNNING, to=Run.Status.FINISHED)
    return made


def wrong(data: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(Invalid) as raised:
        checks.create(data, None)
    assert not RegressionCheck.objects.exists()
    return raised.value.fields


def test_a_run_tells_what_is_measured(run: Run) -> None:
    check = checks.create(
        {"run": run.pk, "name": " nightly ", "at": "02:15", "every": "week", "weekday": "sunday"}, None
    )
    check.refresh_from_db()
    assert (check.name, check.network, check.target, check.device, check.like) == (
        "nightly",
        run.network,
        run.target,
        "cpu",
        run,
    )
    assert (check.how, check.at, check.weekday, check.state) == ("compile", time(2, 15), 6, "new")
    assert check.next_at is not None
    assert (check.next_at.weekday(), check.next_at.hour, check.next_at.minute) == (6, 2, 15)
    assert timedelta() < check.next_at - timezone.now() <= timedelta(days=7)
    assert len(check.badge_key) >= 32


def test_one_that_tunes_has_the_runs_options_but_a_warm_start_and_no_seed(run: Run) -> None:
    data = {"run": run.pk, "name": "a", "how": "tune", "trials": "64", "options": {"strategy": "replay-trace"}}
    check = checks.create(data, None)
    chosen = {name: check.options[name] for name in ("trials_per_batch", "strategy", "warm_start", "seed")}
    assert chosen == {"trials_per_batch": 8, "strategy": "replay-trace", "warm_start": True, "seed": None}
    assert check.trials == 64


@pytest.mark.parametrize(
    ("data", "fields"),
    [
        ({"name": "a"}, {"run"}),
        ({"run": 999, "name": "a"}, {"run"}),
        ({"run": True, "name": "a"}, {"run"}),
        ({"name": ""}, {"run", "name"}),
        ({"name": "12"}, {"run", "name"}),
        ({"name": "a\nb", "at": "25:00"}, {"run", "name", "at"}),
        ({"name": "a", "every": "5 hours", "weekday": "sonntag"}, {"run", "every", "weekday"}),
        ({"name": "a", "how": "guess"}, {"run", "how"}),
        ({"name": "a", "how": "tune"}, {"run", "trials"}),
        ({"name": "a", "evry": "day"}, {"run", "evry"}),
    ],
)
def test_every_field_at_fault_is_named(data: dict[str, Any], fields: set[str]) -> None:
    assert wrong(data).keys() == fields


def test_what_would_fail_from_the_beginning_is_refused(run: Run) -> None:
    assert "There is no library yet" in wrong({"run": run.pk, "name": "a", "how": "benchmark"})["how"]
    imported = measured_run(versions={"apache-tvm": tvm()}, origin="imported", device="", trials_budget=None)
    assert "can't be tuned again" in wrong({"run": imported.pk, "name": "a", "how": "tune", "trials": 8})["how"]
    elsewhere = measured_run(versions={"apache-tvm": tvm()}, chosen_machine=make_machine(forgotten_at=timezone.now()))
    again = {"run": elsewhere.pk, "name": "a", "how": "tune", "trials": 8}
    assert "machine lab-1, the only one that it tunes on" in wrong(again)["how"]
    synthetic = make_run(synthetic=True)
    assert "synthetic" in wrong({"run": synthetic.pk, "name": "a"})["run"]
    bad = {"run": run.pk, "name": "a", "how": "tune", "trials": 8}
    assert wrong({**bad, "options": {"trials_per_batch": 0}}).keys() == {"options.trials_per_batch"}
    assert wrong({**bad, "how": "compile", "options": {"seed": 1}}).keys() == {"options"}


def test_only_who_may_launch_there_makes_one(run: Run) -> None:
    assert checks.create({"run": run.pk, "name": "a"}, make_user("operator")).created_by is not None
    with pytest.raises(Invalid) as raised:
        checks.create({"run": run.pk, "name": "b"}, make_user("viewer"))
    assert raised.value.fields.keys() == {"run"}


def test_a_name_is_taken_once_a_project(run: Run) -> None:
    check = checks.create({"run": run.pk, "name": "a"}, None)
    with pytest.raises(Invalid, match="Another check"):
        checks.create({"run": run.pk, "name": "a"}, None)
    other = checks.create({"run": run.pk, "name": "b"}, None)
    with pytest.raises(Invalid, match="Another check"):
        checks.change(other, {"name": check.name})


class TestChanging:
    def test_a_new_schedule_counts_from_now(self) -> None:
        check = make_check(last_due_at=timezone.now())
        checks.change(check, {"every": "12 hours", "at": "05:00"})
        check.refresh_from_db()
        assert (check.every, check.at, check.last_due_at) == ("12 hours", time(5), None)
        assert check.next_at is not None
        assert (check.next_at.hour % 12, check.next_at.minute) == (5, 0)
        assert check.next_at - timezone.now() <= timedelta(hours=12)

    def test_what_is_not_named_stays(self) -> None:
        check = make_check(next_at=timezone.now() + timedelta(hours=3))
        was = check.next_at
        checks.change(check, {"name": "renamed"})
        check.refresh_from_db()
        assert (check.name, check.next_at, check.every, check.how) == ("renamed", was, "day", "compile")

    def test_it_is_paused_and_resumed(self) -> None:
        check = make_check()
        checks.change(check, {"paused": True})
        check.refresh_from_db()
        assert check.is_paused
        checks.change(check, {"paused": False})
        check.refresh_from_db()
        assert check.next_at is not None
        assert check.next_at > timezone.now()

    def test_whoever_comes_second_is_told(self) -> None:
        check = make_check()
        stale = RegressionCheck.objects.get(pk=check.pk)
        checks.change(check, {"name": "first"})
        with pytest.raises(Conflict, match="just changed"):
            checks.change(stale, {"name": "second"})
        check.refresh_from_db()
        assert check.name == "first"

    @pytest.mark.parametrize("base", ["x", 999, True, -1, 1.5])
    def test_only_a_result_of_its_own_can_be_its_base(self, base: object) -> None:
        check = make_check()
        with pytest.raises(Invalid) as raised:
            checks.change(check, {"base": base})
        assert raised.value.fields.keys() == {"base"}

    def test_a_result_without_its_noise_can_not_be_its_base(self) -> None:
        check = make_check()
        failed = make_result(check, None, verdict="failed")
        with pytest.raises(Invalid):
            checks.change(check, {"base": failed.pk})
        of_another = make_result(make_check(name="other"))
        with pytest.raises(Invalid):
            checks.change(check, {"base": of_another.pk})

    def test_it_begins_to_tune_and_stops_again(self) -> None:
        check = make_check()
        with pytest.raises(Invalid) as raised:
            checks.change(check, {"how": "tune"})
        assert raised.value.fields.keys() == {"trials"}
        checks.change(check, {"how": "tune", "trials": 32})
        check.refresh_from_db()
        assert check.options["warm_start"] is True
        checks.change(check, {"how": "compile"})
        check.refresh_from_db()
        assert (check.trials, check.options) == (None, {})

    def test_options_are_refused_without_a_run_that_has_the_others(self) -> None:
        check = make_check(how="tune", trials=8, options={"trials_per_batch": 8})
        assert check.like is not None
        curation.delete(check.like)
        with pytest.raises(Invalid) as raised:
            checks.change(check, {"options": {"trials_per_batch": 16}})
        assert raised.value.fields.keys() == {"options"}
        checks.change(check, {"trials": 16})
        check.refresh_from_db()
        assert (check.trials, check.options) == (16, {"trials_per_batch": 8})

    def test_a_badge_gets_another_address(self) -> None:
        check = make_check()
        before = check.badge_path
        checks.renew_badge(check)
        check.refresh_from_db()
        assert check.badge_path != before


class TestDeleting:
    def test_its_results_go_and_libraries_stay(self) -> None:
        check = make_check()
        assert check.like is not None
        compilation = make_compilation(check.like)
        make_result(check, compilation=compilation)
        checks.delete(check)
        assert not CheckResult.objects.exists()
        assert check.like.compilations.exists()
        with pytest.raises(Conflict):
            checks.delete(RegressionCheck(pk=999, name="gone"))

    def test_a_run_that_is_removed_for_good_leaves_its_results(self) -> None:
        check = make_check()
        assert check.like is not None
        compilation = make_compilation(check.like)
        result = make_result(check, run=check.like, compilation=compilation, benchmark=compilation.benchmarks.get())
        check.like.delete()
        result.refresh_from_db()
        assert (result.run, result.compilation, result.benchmark, result.latency_s) == (None, None, None, 10e-3)

    def test_a_network_and_a_project_with_a_check_stay(self) -> None:
        project = Project.objects.create(name="vision")
        network = make_network("net", project=project)
        check = make_check(measured_run(project=project, network=network))
        Run.objects.all().delete()
        with pytest.raises(Conflict, match="regression checks"):
            uploading.delete(network)
        with pytest.raises(Conflict, match="1 model and 1 regression check"):
            projects.delete(project)
        checks.delete(check)
        uploading.delete(network)
        projects.delete(project)
