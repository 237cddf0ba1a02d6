"""Does regression checks: begins those that are due, follows what they launched to its end, and judges what was measured.

Where each is stands in its row, and every step is a conditional UPDATE in one transaction with what it launches. So any
number of sweeps may do this at once, a step that was lost with its process is done by the next, and nobody waits.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import DatabaseError, transaction
from django.db.models.functions import Now

from tuning import audit
from tuning.actions import compilations
from tuning.actions.launching import SEEDS
from tuning.actions.runs import store_queued
from tuning.models import Benchmark, CheckResult, Compilation, RegressionCheck, Run
from tuning.models.checking import database_now
from tuning.noise import FEWEST, noise
from tuning.notify import outbox
from tuning.queue import jobs
from tuning.reads.comparing.regressions import BASE, weighed
from tuning.validation import Busy, Conflict, Invalid
from tuning.wording import internal_error

logger = logging.getLogger(__name__)
How, Stage, Verdict = RegressionCheck.How, CheckResult.Stage, CheckResult.Verdict
PATIENCE = timedelta(minutes=1)
"""An interrupted run that isn't queued again by then stays so: one that leaves a drained machine goes on elsewhere."""
STATES = {
    Verdict.FIRST: RegressionCheck.State.GOOD,
    Verdict.BETTER: RegressionCheck.State.GOOD,
    Verdict.WITHIN_NOISE: RegressionCheck.State.GOOD,
    Verdict.REGRESSION: RegressionCheck.State.REGRESSION,
    Verdict.FAILED: RegressionCheck.State.FAILED,
}
"""By verdict, what is said of the check from then on."""
VERDICTS = {
    "regression": Verdict.REGRESSION,
    "improvement": Verdict.BETTER,
    "within noise": Verdict.WITHIN_NOISE,
}
FEW = "Noise isn't known: its benchmark has {rounds} rounds, fewer than {fewest}. Measure it again."


def tend() -> None:
    """Begin the checks that are due, and take those that go on further."""
    now = database_now()
    for check in RegressionCheck.objects.scheduled():
        _begin_if_due(check, now)
    going = CheckResult.objects.going().order_by("pk").select_related("of", "run", "compilation__run")
    for result in going:
        advance(result)


def begin(check: RegressionCheck, *, due_at: datetime | None = None, user: User | None = None) -> CheckResult:
    """A result that goes on, or one that has ended because the one before goes on. Call it in a transaction."""
    check = RegressionCheck.objects.select_for_update().get(pk=check.pk)
    going = check.results.going().select_related("run", "compilation").first()
    # The database refuses a second one that goes on; here it would be an error.
    ended = {"ended_at": Now(), **_instead(check, going)} if going else {}
    values: dict[str, Any] = {"due_at": due_at, "begun_at": Now(), "asked_by": user}
    made = CheckResult.objects.create(of=check, **values, **ended)
    made.refresh_from_db()
    if made.verdict == Verdict.FAILED:
        _conclude(check, made)
    return made


def _instead(check: RegressionCheck, going: CheckResult) -> dict[str, Any]:
    """How a result ends that is due while another one goes on. What that one waits for may never come, such as a machine that is gone."""
    begun = f"Result {going.pk}, begun at {going.begun_at:%Y-%m-%d %H:%M} UTC,"
    if database_now() - going.begun_at <= check.patience:
        return {"verdict": Verdict.SKIPPED, "error": f"{begun} still went on."}
    return {"verdict": Verdict.FAILED, "error": f"{begun} still goes on: {_waits_for(going)}."}


def _waits_for(going: CheckResult) -> str:
    if going.stage == Stage.TUNE and going.run is not None:
        return f"run {going.run_id} is {going.run.status}"
    if going.compilation is not None:
        return f"compilation {going.compilation_id} is {going.compilation.status}"
    return "it has launched nothing yet"


def advance(result: CheckResult) -> None:
    """Take a result that goes on one step further, if what it waits for has ended. What keeps it from that ends it as failed."""
    try:
        queued = _STEPS[Stage(result.stage)](result)
    except (Conflict, Invalid, Busy) as why:
        _fail(result, str(why))
    except DatabaseError:
        raise
    except Exception as error:  # Whatever it is, it keeps neither the sweep nor other checks from going on.
        logger.exception("Result %s of regression check %s can't go on.", result.pk, result.of_id)
        _fail(result, internal_error(error))
    else:
        if queued is not None:
            jobs.enqueue(queued)


def _fail(result: CheckResult, why: str) -> None:
    """End it as it is stored: what had been changed before that was undone."""
    if stored := CheckResult.objects.going().select_related("of").filter(pk=result.pk).first():
        _end(stored, Verdict.FAILED, error=why)


def _begin_if_due(check: RegressionCheck, now: datetime) -> None:
    """Times that were missed count once. A clock that was set back makes no check wait for longer than its schedule says."""
    due_at = check.next_at
    assert due_at is not None, "paused checks aren't scheduled"
    if due_at > now:
        if (sooner := check.due_after(now)) < due_at:
            check.reschedule(sooner)
        return
    check.last_due_at = due_at
    with transaction.atomic():
        if check.reschedule(check.due_after(now), last_due_at=due_at):
            begin(check, due_at=due_at)


def _launch(result: CheckResult) -> Run | Compilation | None:
    """What the check does first; None if another sweep was faster. Raises `Conflict`."""
    check = result.of
    if check.how == How.TUNE:
        return _tune(result)
    if check.how == How.BENCHMARK:
        return _measure_again(result)
    run = next(iter(check.runs()), None)
    if run is None:
        raise Conflict("There is no run of its network, target and device any more.")
    return _compile(result, run)


def _tune(result: CheckResult) -> Run | None:
    """Raises `Conflict`."""
    check = result.of
    if check.machine_trouble:
        raise Conflict(check.machine_trouble)
    with transaction.atomic():
        if not result.move(stage=Stage.TUNE):
            return None
        run = store_queued(
            _owner(result),
            name=check.name,
            engine=check.engine,
            interpreter=check.interpreter,
            project=check.project,
            network=check.network,
            target=check.target,
            device=check.device,
            chosen_machine=check.machine,
            needs=check.needs,
            machines_wanted=check.machines_wanted,
            options={**check.options, "seed": secrets.randbelow(SEEDS)},
            trials_budget=check.trials,
            time_limit_s=check.time_limit_s,
        )
        result.move(run=run)
    return run


def _compile(result: CheckResult, run: Run) -> Compilation | None:
    """Raises `Conflict`."""
    with audit.together():
        if not result.move(stage=Stage.MEASURE):
            return None
        source = {"source": Compilation.Source.LIBRARY}
        made = compilations.compile_run(run, source, _owner(result), enqueue=False, wait=False)
        result.move(compilation=made)
    return made


def _measure_again(result: CheckResult) -> Compilation | None:
    """Raises `Conflict`. While the library is measured for somebody else, such as another check, the result waits to begin."""
    library = result.of.newest_library()
    if library is None:
        raise Conflict("No run of its network, target and device has a library that could be measured.")
    if not library.can_benchmark:
        return None
    newest = library.benchmarks.first()
    with audit.together():
        if not result.move(stage=Stage.MEASURE, compilation=library, known=newest.pk if newest else None):
            return None
        return compilations.benchmark(library, _owner(result), enqueue=False)


def _follow_run(result: CheckResult) -> Compilation | None:
    """Once its run has finished, compile it. Raises `Conflict` if it ended otherwise."""
    run = result.run
    if run is None or run.deleted_at is not None:
        raise Conflict("Its run was deleted.")
    if run.status not in Run.ENDED or _may_go_on(run):
        return None
    if run.status != Run.Status.FINISHED:
        raise Conflict(f"Run {run.pk} is {run.status}: {_reason(run.error)}")
    return _compile(result, run)


def _may_go_on(run: Run) -> bool:
    moving = Run.objects.filter(pk=run.pk, status=Run.Status.INTERRUPTED, finished_at__gt=Now() - PATIENCE)
    return moving.exists()


def _follow_library(result: CheckResult) -> None:
    """Once its library was benchmarked, judge that. Raises `Conflict` if there is no new benchmark."""
    library = result.compilation
    if library is None or library.run.deleted_at is not None:
        raise Conflict("Its library was deleted.")
    # Its own is the first one since it began: the library may be measured for somebody else by now.
    own = library.benchmarks.filter(pk__gt=result.known or 0).order_by("pk").first()
    if own is None and library.status not in Compilation.ENDED:
        return
    if own is None:
        raise Conflict(
            f"Compilation {library.pk} is {library.status} without a new benchmark: {_reason(library.error)}"
        )
    if not library.verified:
        raise Conflict(f"Compilation {library.pk} isn't verified: its outputs differ from the untuned library's.")
    _judge(result, own)


_STEPS: dict[str, Callable[[CheckResult], Run | Compilation | None]] = {
    Stage.BEGIN: _launch,
    Stage.TUNE: _follow_run,
    Stage.MEASURE: _follow_library,
}


def _judge(result: CheckResult, measured: Benchmark) -> None:
    rounds = measured.rounds["tuned"]
    library = measured.compilation
    values: dict[str, Any] = {
        "benchmark": measured,
        "machine": library.machine.name if library.machine else "",
        "versions": library.versions,
        "rounds": rounds,
        "spread": noise(rounds),
    }
    base = _base(result, values["machine"])
    if isinstance(base, str):
        _end(result, Verdict.FAILED, error=base, **values, latency_s=weighed(rounds, []).latency_s)
        return
    found = weighed(rounds, base)
    values |= {"latency_s": found.latency_s, "base_s": found.base_s, "change": found.change, "noise": found.noise}
    if values["spread"] is None:
        _end(result, Verdict.FAILED, error=FEW.format(rounds=len(rounds), fewest=FEWEST), **values)
    else:
        _end(result, VERDICTS.get(found.verdict, Verdict.FIRST), **values)


def _base(result: CheckResult, machine: str) -> list[list[float]] | str:
    """The rounds of what it is compared with, all measured on this machine; or why that can't be."""
    pinned = RegressionCheck.objects.select_related("base").get(pk=result.of_id).base
    if pinned is None:
        good = result.of.results.good().filter(machine=machine).values_list("rounds", flat=True)
        return list(good[:BASE])
    if pinned.machine != machine:
        return f"It was measured on {machine or 'an unknown machine'}, its pinned base on {pinned.machine or 'an unknown one'}."
    return [pinned.rounds]


def _end(result: CheckResult, verdict: str, **values: Any) -> None:
    """End the result unless somebody has, and tell of it if that changes what is said of the check."""
    with transaction.atomic():
        check = RegressionCheck.objects.select_for_update().filter(pk=result.of_id).first()
        if check is None or not result.move(verdict=verdict, ended_at=Now(), **values):
            return
        _conclude(check, result)
    logger.info("Regression check %s: %s", check, result.verdict)


def _conclude(check: RegressionCheck, result: CheckResult) -> None:
    """What is said of the check from now on. `check` is locked: two results can't both be told as the change."""
    state = STATES[Verdict(result.verdict)]
    RegressionCheck.objects.filter(pk=check.pk).update(state=state, latest=result)
    if _is_news(check.state, state):
        outbox.note_check(check, result)


def _is_news(was: str, state: str) -> bool:
    """Whether it got worse, or is good again."""
    return state not in (was, RegressionCheck.State.GOOD) or (
        state == RegressionCheck.State.GOOD and was not in (RegressionCheck.State.NEW, state)
    )


def _owner(result: CheckResult) -> User | None:
    """Whose run or library it is: who asked for the result, or else made the check."""
    return result.asked_by or result.of.created_by


def _reason(error: str | None) -> str:
    """The first line of why something ended."""
    return (error or "").strip().partition("\n")[0] or "no reason is known."
