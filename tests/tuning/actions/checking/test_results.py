"""Regression checks are begun when they are due, followed by the sweep, and judged by their own history."""

from __future__ import annotations

from datetime import time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import OperationalError
from django.utils import timezone

from tests.world import claimed, make_check, make_compilation, make_machine, make_result, make_tasks
from tuning.actions import compilations, curation, sweeping
from tuning.actions.checking import checks
from tuning.actions.checking.results import PATIENCE, tend
from tuning.models import Benchmark, CheckResult, Compilation, Delivery, RegressionCheck, Run
from tuning.notify import messages, outbox
from tuning.queue import jobs
from tuning.validation import Conflict

pytestmark = pytest.mark.django_db
ROUNDS = (0.98, 0.99, 1.0, 1.0, 1.0, 1.01, 1.02)
AGO = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def enqueued(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What workers were told of."""
    rows: list[Any] = []
    monkeypatch.setattr(jobs, "enqueue", rows.append)
    return rows


def due(**values: Any) -> RegressionCheck:
    return make_check(**({"next_at": timezone.now() - AGO} | values))


def newest(check: RegressionCheck) -> CheckResult:
    return check.results.select_related("compilation", "run").all()[0]


def again(check: RegressionCheck) -> CheckResult:
    """The result of the check, which is made due."""
    RegressionCheck.objects.filter(pk=check.pk).update(next_at=timezone.now() - AGO)
    tend()
    return newest(check)


def measured(result: CheckResult, latency_s: float, rounds: tuple[float, ...] = ROUNDS, **values: Any) -> CheckResult:
    """The result once its library was measured, as a worker does."""
    assert result.compilation is not None
    Benchmark.objects.create(compilation=result.compilation, rounds={"tuned": [latency_s * each for each in rounds]})
    ended = {"status": "finished", "verified": True, "sha256": "ab", "versions": {"apache-tvm": "0.27.0"}}
    Compilation.objects.filter(pk=result.compilation.pk).update(**(ended | values))
    tend()
    return newest(result.of)


def state(check: RegressionCheck) -> str:
    check.refresh_from_db()
    return check.state


class TestWhenItIsDue:
    def test_it_is_compiled_once_and_due_again_a_day_later(self, enqueued: list[Any]) -> None:
        check = due()
        sweeping.sweep()
        sweeping.sweep()
        result = check.results.get()
        assert (result.stage, result.verdict, result.due_at) == ("measure", "", check.next_at)
        made = result.compilation
        assert made is not None
        assert (made.run, made.source, made.status) == (check.like, "library", "queued")
        assert made in enqueued
        was = check.next_at
        check.refresh_from_db()
        assert check.next_at is not None
        assert timezone.now() < check.next_at < timezone.now() + timedelta(days=1)
        assert check.last_due_at == was

    def test_what_was_missed_is_done_once(self) -> None:
        check = due(next_at=timezone.now() - timedelta(days=40), every="hour")
        tend()
        tend()
        assert check.results.count() == 1

    def test_whoever_comes_second_begins_nothing(self) -> None:
        """Two sweeps have read that it is due."""
        check = due()
        first, second = (RegressionCheck.objects.get(pk=check.pk) for _ in range(2))
        later = timezone.now() + timedelta(days=1)
        assert first.reschedule(later)
        assert not second.reschedule(later)

    def test_one_that_is_paused_or_not_yet_due_is_left_alone(self) -> None:
        for next_at in (None, timezone.now() + timedelta(hours=1)):
            make_check(next_at=next_at, name=str(next_at))
        tend()
        assert not CheckResult.objects.exists()

    def test_a_time_that_a_wrong_clock_left_far_ahead_is_moved_back(self) -> None:
        check = make_check(next_at=timezone.now() + timedelta(days=400))
        tend()
        check.refresh_from_db()
        assert check.next_at is not None
        assert check.next_at < timezone.now() + timedelta(days=1, hours=1)
        assert not check.results.exists()

    def test_it_is_skipped_while_the_result_before_goes_on(self) -> None:
        check = due()
        tend()
        going = newest(check)
        skipped = again(check)
        assert (skipped.verdict, skipped.compilation) == ("skipped", None)
        assert f"Result {going.pk}" in (skipped.error or "")
        assert newest(check).ended_at is not None
        assert measured(going, 10e-3).pk == skipped.pk
        going.refresh_from_db()
        assert going.verdict == "first"
        check.refresh_from_db()
        assert check.latest == going

    def test_its_times_are_the_zones(self, settings: Any) -> None:
        settings.SCHEDULE_ZONE = ZoneInfo("Europe/Berlin")
        check = due(at=time(12, 30))
        tend()
        check.refresh_from_db()
        assert check.next_at is not None
        assert check.next_at.astimezone(settings.SCHEDULE_ZONE).time() == time(12, 30)

    def test_what_goes_on_is_finished_while_it_is_paused(self) -> None:
        check = due()
        tend()
        checks.change(check, {"paused": True})
        assert measured(newest(check), 10e-3).verdict == "first"
        assert check.results.count() == 1

    def test_a_step_that_another_sweep_has_done_is_not_repeated(self) -> None:
        check = due()
        tend()
        stale = CheckResult.objects.get()
        stale.stage = CheckResult.Stage.BEGIN
        assert not stale.move(stage=CheckResult.Stage.MEASURE)
        assert Compilation.objects.filter(run=check.like).count() == 1


class TestWhatIsFound:
    def test_the_first_result_is_the_base_of_the_second(self) -> None:
        check = due()
        tend()
        first = measured(newest(check), 10e-3)
        assert (first.verdict, first.latency_s, first.base_s, first.versions) == (
            "first",
            10e-3,
            None,
            {"apache-tvm": "0.27.0"},
        )
        for latency_s, verdict, said in (
            (10.1e-3, "within noise", "good"),
            (12e-3, "regression", "regression"),
            (8e-3, "better", "good"),
        ):
            result = measured(again(check), latency_s)
            assert (result.verdict, state(check)) == (verdict, said)
            assert result.base_s is not None
            assert result.noise is not None

    def test_a_regression_stays_one_until_it_is_pinned(self) -> None:
        check = make_check()
        for _ in range(3):
            make_result(check, 10e-3)
        slow = [measured(again(check), 12e-3) for _ in range(3)]
        assert [one.verdict for one in slow] == ["regression"] * 3
        assert slow[-1].base_s == pytest.approx(10e-3)
        checks.change(check, {"base": slow[-1].pk})
        assert measured(again(check), 12e-3).verdict == "within noise"
        check.refresh_from_db()
        checks.change(check, {"base": None})
        assert check.base is None

    def test_results_of_another_machine_are_no_base(self) -> None:
        check = make_check()
        make_result(check, 10e-3, machine="lab-1")
        assert measured(again(check), 20e-3, machine=make_machine("lab-2")).verdict == "first"
        checks.change(check, {"base": check.results.get(machine="lab-1").pk})
        found = measured(again(check), 20e-3, machine=make_machine("lab-3"))
        assert (found.verdict, found.latency_s) == ("failed", 20e-3)
        assert "its pinned base on lab-1" in (found.error or "")

    def test_few_rounds_are_a_failure_that_says_so(self) -> None:
        check = due()
        tend()
        found = measured(newest(check), 10e-3, rounds=(0.9, 1.0, 1.1))
        assert (found.verdict, found.latency_s, state(check)) == ("failed", 10e-3, "failed")
        assert "3 rounds" in (found.error or "")

    @pytest.mark.parametrize(
        ("values", "why"),
        [
            (
                {"status": "failed", "error": "lld: undefined symbol\nmore"},
                "is failed without a new benchmark: lld: undefined symbol",
            ),
            ({"status": "cancelled"}, "is cancelled"),
        ],
        ids=("failed", "cancelled"),
    )
    def test_a_compilation_without_a_benchmark_never_passes(self, values: dict[str, Any], why: str) -> None:
        check = due()
        tend()
        Compilation.objects.update(**values)
        tend()
        result = newest(check)
        assert result.verdict == "failed"
        assert why in (result.error or "")
        assert state(check) == "failed"

    def test_wrong_outputs_never_pass(self) -> None:
        check = due()
        tend()
        found = measured(newest(check), 1e-3, verified=False)
        assert found.verdict == "failed"
        assert "isn't verified" in (found.error or "")


class TestHowItIsDone:
    def test_the_newest_library_is_measured_again(self) -> None:
        check = due(how="benchmark")
        assert check.like is not None
        older, newer = (make_compilation(check.like, source="run") for _ in range(2))
        tend()
        result = newest(check)
        assert result.compilation == newer
        newer.refresh_from_db()
        assert (newer.status, newer.stage) == ("queued", "prove")
        tend()
        assert newest(check).goes_on, "an earlier benchmark isn't its own"
        assert measured(result, 10e-3).verdict == "first"
        assert older.benchmarks.count() == 1

    def test_two_checks_of_one_library_measure_it_one_after_the_other(self) -> None:
        """An older one would be measured in its place, and judged as if it were the newest."""
        first = due(how="benchmark", name="first")
        assert first.like is not None
        older, newer = (make_compilation(first.like, source="run") for _ in range(2))
        second = due(run=first.like, how="benchmark", name="second")
        tend()
        assert newest(first).compilation == newer
        assert (newest(second).stage, newest(second).compilation) == ("begin", None)
        assert measured(newest(first), 10e-3).verdict == "first"
        assert (newest(second).stage, newest(second).compilation) == ("measure", newer)
        assert older.benchmarks.count() == 1

    def test_a_benchmark_that_somebody_else_asks_for_meanwhile_is_not_its_own(self) -> None:
        check = due(how="benchmark")
        assert check.like is not None
        library = make_compilation(check.like, source="run")
        tend()
        for latency_s in (10e-3, 30e-3):
            Benchmark.objects.create(compilation=library, rounds={"tuned": [latency_s * each for each in ROUNDS]})
        Compilation.objects.update(status="queued", verified=True)
        tend()
        assert (newest(check).verdict, newest(check).latency_s) == ("first", 10e-3)

    def test_without_a_library_it_says_so(self) -> None:
        check = due(how="benchmark")
        tend()
        assert "has a library" in (newest(check).error or "")

    def test_it_tunes_from_a_warm_start_and_then_compiles(self, enqueued: list[Any]) -> None:
        check = due()
        assert check.like is not None
        checks.change(check, {"how": "tune", "trials": 32})
        RegressionCheck.objects.filter(pk=check.pk).update(next_at=timezone.now() - AGO)
        tend()
        run = newest(check).run
        assert run is not None
        assert run in enqueued
        assert (run.trials_budget, run.network, run.target, run.device) == (
            32,
            check.network,
            check.target,
            check.device,
        )
        assert run.options["warm_start"] is True
        assert run.options["trials_per_batch"] == 16, "as in its run"
        assert isinstance(run.options["seed"], int)
        tend()
        assert newest(check).stage == "tune"
        make_tasks(claimed(run))
        Run.objects.filter(pk=run.pk).update(status="finished", versions=check.like.versions)
        tend()
        result = newest(check)
        assert result.compilation is not None, result.error
        assert (result.compilation.run, result.compilation.source) == (run, "library")

    def test_a_run_that_does_not_finish_is_a_failure(self) -> None:
        check = due(how="tune", trials=8, options={})
        tend()
        run = newest(check).run
        assert run is not None
        Run.objects.filter(pk=run.pk).update(status="interrupted", finished_at=timezone.now())
        tend()
        assert newest(check).goes_on, "it may be on its way to another machine"
        Run.objects.filter(pk=run.pk).update(
            finished_at=timezone.now() - PATIENCE - AGO, error="The worker stopped responding."
        )
        tend()
        assert newest(check).error == f"Run {run.pk} is interrupted: The worker stopped responding."

    def test_another_run_stands_in_for_one_that_was_deleted(self) -> None:
        check = due()
        assert check.like is not None
        curation.delete(check.like)
        other = make_check(name="of another run").like
        tend()
        result = newest(check)
        assert result.compilation is not None
        assert result.compilation.run == other

    def test_without_any_run_it_fails(self) -> None:
        check = due()
        assert check.like is not None
        curation.delete(check.like)
        tend()
        assert (newest(check).verdict, state(check)) == ("failed", "failed")

    def test_what_is_refused_leaves_nothing_half_done(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: Any, **__: Any) -> None:
            raise Conflict("No run has a valid record.")

        check = due()
        monkeypatch.setattr(compilations, "compile_run", refuse)
        tend()
        result = newest(check)
        assert (result.verdict, result.stage, result.error) == ("failed", "begin", "No run has a valid record.")
        tend()
        assert check.results.count() == 1


class TestWhatIsGone:
    @pytest.mark.parametrize("removed", [False, True], ids=("deleted", "removed"))
    def test_a_run_that_it_tunes(self, *, removed: bool) -> None:
        check = due(how="tune", trials=8, options={})
        tend()
        run = newest(check).run
        assert run is not None
        Run.everything.filter(pk=run.pk).update(status="stopped", deleted_at=timezone.now())
        if removed:
            Run.everything.filter(pk=run.pk).delete()
        tend()
        assert (newest(check).verdict, newest(check).error) == ("failed", "Its run was deleted.")

    @pytest.mark.parametrize("removed", [False, True], ids=("deleted", "removed"))
    def test_a_library_that_it_measures(self, *, removed: bool) -> None:
        check = due()
        tend()
        assert check.like is not None
        Run.everything.filter(pk=check.like.pk).update(deleted_at=timezone.now())
        if removed:
            Run.everything.filter(pk=check.like.pk).delete()
        tend()
        assert (newest(check).verdict, newest(check).error) == ("failed", "Its library was deleted.")

    def test_a_machine_that_alone_may_tune(self) -> None:
        gone = make_machine(forgotten_at=timezone.now())
        check = due(how="tune", trials=8, options={}, machine=gone)
        tend()
        result = newest(check)
        assert (result.verdict, result.run) == ("failed", None)
        assert result.error == "The machine lab-1, the only one that it tunes on, is no longer one of the site's."
        assert not Run.objects.filter(status="queued").exists()

    @pytest.mark.parametrize("how", ["compile", "tune"])
    def test_whoever_would_have_to_measure(self, how: str) -> None:
        check = due(how=how, trials=8 if how == "tune" else None)
        tend()
        going = newest(check)
        waits = f"run {going.run_id}" if how == "tune" else f"compilation {going.compilation_id}"
        CheckResult.objects.update(begun_at=timezone.now() - check.patience + AGO)
        assert again(check).verdict == "skipped"
        CheckResult.objects.filter(pk=going.pk).update(begun_at=timezone.now() - check.patience - AGO)
        late = again(check)
        assert (late.verdict, state(check), check.latest) == ("failed", "failed", late)
        assert f"Result {going.pk}, begun at" in (late.error or "")
        assert (late.error or "").endswith(f"UTC, still goes on: {waits} is queued.")
        going.refresh_from_db()
        assert going.goes_on, "somebody may yet come and measure it"

    @pytest.mark.parametrize(("every", "hours"), [("hour", 24), ("12 hours", 24), ("day", 36), ("week", 252)])
    def test_it_is_patient(self, every: str, hours: int) -> None:
        assert RegressionCheck(every=every, at=time(2)).patience == timedelta(hours=hours)


class TestDoingItNow:
    def test_it_leaves_the_schedule_as_it_is(self) -> None:
        check = make_check()
        result = checks.do_now(check, None)
        assert (result.due_at, result.stage) == (None, "measure")
        was = check.next_at
        check.refresh_from_db()
        assert check.next_at == was

    def test_it_is_refused_while_one_goes_on(self) -> None:
        check = make_check()
        checks.do_now(check, None)
        with pytest.raises(Conflict, match="still goes on"):
            checks.do_now(check, None)
        assert check.results.count() == 1


class TestWebhooks:
    @pytest.fixture(autouse=True)
    def _address(self, settings: Any) -> None:
        settings.WEBHOOKS = ["https://chat.example/hook"]

    def told(self) -> list[str]:
        of_checks = Delivery.objects.filter(kind__startswith="regression_check.").order_by("pk")
        return [one.kind.partition(".")[2] for one in of_checks]

    def test_they_tell_of_changes_only(self) -> None:
        check = due()
        tend()
        measured(newest(check), 10e-3)
        assert self.told() == []
        for latency_s in (12e-3, 12e-3, 10e-3, 10e-3):
            measured(again(check), latency_s)
        assert self.told() == ["regression", "good"]

    def test_they_say_what_was_measured(self) -> None:
        check = make_check(name="nightly <!here>")
        make_result(check, 10e-3)
        result = measured(again(check), 12e-3)
        message = Delivery.objects.get(kind="regression_check.regression").message
        assert message["text"].startswith("Regression check nightly &lt;!here&gt;: regression: 12 ms, +20.0% against")
        assert (message["path"], message["result"], message["latency_s"]) == (
            f"/regressions/{check.pk}/",
            result.pk,
            12e-3,
        )
        assert message["state"] == "regression"

    def test_what_is_stored_is_told_or_neither(self, monkeypatch: pytest.MonkeyPatch, enqueued: list[Any]) -> None:
        """The process dies, or loses the database, while it stores the message; then before it tells a worker of it."""

        def lost(*_: Any) -> None:
            raise OperationalError("server closed the connection unexpectedly")

        check = make_check(state="good")
        make_result(check, 10e-3)
        going = again(check)
        with monkeypatch.context() as patched:
            patched.setattr(outbox, "_store", lost)
            with pytest.raises(OperationalError):
                measured(going, 12e-3)
        going.refresh_from_db()
        assert (going.goes_on, state(check), self.told()) == (True, "good", [])
        tend()
        tend()
        assert (newest(check).verdict, state(check), self.told()) == ("regression", "regression", ["regression"])
        message = Delivery.objects.get(kind="regression_check.regression")
        assert message not in enqueued
        sweeping.sweep()
        assert message in enqueued
        assert self.told() == ["regression"]

    def test_a_message_that_can_not_be_written_undoes_nothing(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fails(*_: Any) -> Any:
            raise KeyError("unforeseen")

        monkeypatch.setattr(messages, "about_check", fails)
        check = make_check(state="good")
        make_result(check, 10e-3)
        assert measured(again(check), 12e-3).verdict == "regression"
        assert state(check) == "regression"
        assert "No webhook is sent about" in caplog.text

    def test_one_that_nobody_measures_is_told_once_and_when_it_is_good(self) -> None:
        check = due(state="good")
        tend()
        going = newest(check)
        CheckResult.objects.update(begun_at=timezone.now() - check.patience - AGO)
        again(check)
        again(check)
        assert self.told() == ["failed"]
        assert "still goes on: compilation" in Delivery.objects.get(kind="regression_check.failed").message["text"]
        measured(going, 10e-3)
        going.refresh_from_db()
        assert (going.verdict, self.told()) == ("first", ["failed", "good"])

    def test_a_failure_is_told_once(self) -> None:
        check = due(how="benchmark")
        tend()
        again(check)
        assert self.told() == ["failed"]
