"""Make, change and delete regression checks, and do one now."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, time
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from django.contrib.auth.models import User
from django.db import IntegrityError
from msgspec import Meta

from tuning import audit
from tuning.actions.launching import LONGEST_S, MOST_TRIALS
from tuning.actions.projects import LAUNCH
from tuning.engines.wire.engines import ENGINES
from tuning.models import CheckResult, RegressionCheck, Run, fingerprint
from tuning.models.checking import WEEKDAYS, database_now, drawn_key
from tuning.reads.artifacts import compile_trouble
from tuning.validation import Conflict, Invalid, OptionDict, convert, gather, natural, options_of, unknown

from .results import advance, begin

How = RegressionCheck.How
LONGEST_NAME = 100
AT = "02:00"
"""The time of day unless another one is given."""
TAKEN = "Another check of the project has that name."
GONE = "Somebody has just changed or deleted the check."


class Plan(msgspec.Struct):
    """What a check does each time, and how often."""

    how: Annotated[
        Literal["compile", "benchmark", "tune"],
        Meta(
            title="Each time",
            description="compile: build a library with the best records known, and measure it. benchmark: measure the newest library "
            "again. tune: tune from a warm start, then compile and measure.",
        ),
    ] = "compile"
    every: Annotated[
        Literal["hour", "2 hours", "3 hours", "4 hours", "6 hours", "8 hours", "12 hours", "day", "week"],
        Meta(title="Every", description="Hours count from the time of day."),
    ] = "day"
    weekday: Annotated[
        Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"],
        Meta(title="On", description="Only of a weekly check."),
    ] = "monday"
    trials: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_TRIALS)] | None,
        Meta(title="Trials", description="The budget of each tuning. Only of a check that tunes, which needs it."),
    ] = None
    time_limit_s: Annotated[
        Annotated[float, Meta(gt=0, le=LONGEST_S)] | None,
        Meta(title="Time limit (s)", description="Of each tuning. Empty: no limit."),
    ] = None


PLAN = Plan.__struct_fields__
FIELDS = ("name", *PLAN, "at", "options")
"""What a new check is told besides its run, and what can be changed."""
STATES = ("paused", "base")
"""What can only be changed."""


def plan_options() -> list[OptionDict]:
    return options_of(Plan)


def create(data: Mapping[str, Any], user: User | None) -> RegressionCheck:
    """Store a check of the network, target and device of `run`, a run's number. Raises `Invalid` that names every field at fault."""
    wrong = unknown(data, ("run", *FIELDS))
    run: Run | None = gather(wrong, _run, data.get("run"), user)
    plan: Plan | None = gather(wrong, _plan, {key: data[key] for key in PLAN if key in data})
    name = gather(wrong, _name, data.get("name"))
    at = gather(wrong, _time, data.get("at", AT))
    options = gather(wrong, _options, run, data.get("options"), plan) if run and plan else None
    if run and plan:
        gather(wrong, _check_possible, RegressionCheck(like=run, **_subject(run)), run, plan.how)
    if wrong or run is None or plan is None:
        raise Invalid(wrong)
    check = RegressionCheck(
        name=name, created_by=user, like=run, at=at, options=options, **_columns(plan), **_subject(run)
    )
    try:
        with audit.act("check.create", check, run=run.pk, how=plan.how, every=plan.every):
            check.next_at = check.due_after(database_now())
            check.save()
    except IntegrityError as error:
        raise Invalid({"name": TAKEN}) from error
    return check


def change(check: RegressionCheck, data: Mapping[str, Any]) -> RegressionCheck:
    """Change what a new check is told, pause or resume it (`paused`), or pin a result as its `base`; null unpins it.

    Raises `Invalid` that names every field at fault, or `Conflict` if somebody else was faster.
    """
    wrong = unknown(data, (*FIELDS, *STATES))
    checked: dict[str, Callable[[Any], Any]] = {"name": _name, "at": _time, "base": partial(_base, check)}
    values = {name: gather(wrong, test, data[name]) for name, test in checked.items() if name in data}
    values |= gather(wrong, _planned_anew, check, data) or {}
    paused = data.get("paused", check.is_paused)
    if not isinstance(paused, bool):
        wrong["paused"] = "Must be true or false."
    if wrong:
        raise Invalid(wrong)
    _change(check, values, paused=paused)
    return check


def _planned_anew(check: RegressionCheck, data: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of its plan, changed. Raises `Invalid`."""
    given = {name: data[name] for name in PLAN if name in data}
    if not given and "options" not in data:
        return {}
    plan = _plan(_planned(check) | given)
    run = next(iter(check.runs()), None)
    if plan.how != check.how:
        _check_possible(check, run, plan.how)
    if run is None and data.get("options"):
        raise Invalid({"options": "None of its runs is left, whose options these would be."})
    values = _columns(plan)
    if run is not None and ("options" in data or plan.how != check.how):
        values["options"] = _options(run, data.get("options"), plan)
    return values


def delete(check: RegressionCheck) -> None:
    """Delete a check with its results. A run or compilation that it has begun goes on."""
    with audit.act("check.delete", audit.Thing("check", check.pk, check.name)):
        if not RegressionCheck.objects.filter(pk=check.pk).delete()[0]:
            raise Conflict(GONE)


def renew_badge(check: RegressionCheck) -> RegressionCheck:
    """Give its badge another address; the one before is not found any more."""
    with audit.act("check.renew_badge", check):
        _update(check, {"badge_key": drawn_key()})
    return check


def do_now(check: RegressionCheck, user: User | None) -> CheckResult:
    """Begin a result that wasn't due. Raises `Conflict` if one goes on."""
    with audit.act("check.run", check) as act:
        if going := check.results.going().first():
            raise Conflict(f"Its result since {going.begun_at:%Y-%m-%d %H:%M} UTC still goes on.")
        result = begin(check, user=user)
        act.details["result"] = result.pk
    advance(result)
    return result


def _change(check: RegressionCheck, values: dict[str, Any], *, paused: bool) -> None:
    """A new schedule counts from now."""
    fresh = RegressionCheck(pk=check.pk, every=check.every, at=check.at, weekday=check.weekday)
    for name in ("every", "at", "weekday"):
        setattr(fresh, name, values.get(name, getattr(check, name)))
    anew = fresh.schedule != check.schedule or paused != check.is_paused
    if anew:
        values |= {"next_at": None if paused else fresh.due_after(database_now()), "last_due_at": None}
    changed = {name: value for name, value in values.items() if getattr(check, name) != value}
    try:
        with audit.act("check.change", check, **{name: _shown(value) for name, value in changed.items()}):
            _update(check, changed)
    except IntegrityError as error:
        raise Invalid({"name": TAKEN}) from error


def _update(check: RegressionCheck, values: dict[str, Any]) -> None:
    """Raises `Conflict` if the check is gone, or what is changed isn't as it was."""
    was = {name: getattr(check, name) for name in values if name not in ("options", "next_at", "last_due_at")}
    if values and not RegressionCheck.objects.filter(pk=check.pk, **was).update(**values):
        raise Conflict(GONE)
    for name, value in values.items():
        setattr(check, name, value)


def _shown(value: Any) -> Any:
    """A value for the audit log."""
    if isinstance(value, CheckResult):
        return value.pk
    return value.isoformat() if isinstance(value, (time, datetime)) else value


def _columns(plan: Plan) -> dict[str, Any]:
    return {**msgspec.structs.asdict(plan), "weekday": WEEKDAYS.index(plan.weekday)}


def _planned(check: RegressionCheck) -> dict[str, Any]:
    return {**{name: getattr(check, name) for name in PLAN}, "weekday": WEEKDAYS[check.weekday]}


def _subject(run: Run) -> dict[str, Any]:
    """What is measured, as a run has it."""
    return {
        "project": run.project,
        "network": run.network,
        "engine": run.engine,
        "interpreter": run.interpreter,
        "target": run.target,
        "target_fingerprint": fingerprint(run.target),
        "device": run.measures_on,
        "machine": run.chosen_machine,
        "needs": run.needs,
        "machines_wanted": run.machines_wanted,
    }


def _run(given: Any, user: User | None) -> Run:
    """Raises `Invalid`, also for a run of a project in which the user may not launch: a check launches."""
    if given in (None, ""):
        raise Invalid({"run": "Enter the number of a run: it tells network, target and device."})
    number = _number(given)
    known = Run.objects.seen_by(user).select_related("network", "project", "chosen_machine", "needs")
    run = None if number is None else known.filter(pk=number).first()
    if run is None or not (user is None or user.has_perm(LAUNCH, run)):
        raise Invalid(
            {"run": f"There is no run {str(given)[:20]} in a project in which your role allows you to launch."}
        )
    return run


def _number(given: Any) -> int | None:
    """A row's number, also as forms send it; None if it is none."""
    number = natural(given) if isinstance(given, str) else given
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def _plan(given: Mapping[str, Any]) -> Plan:
    plan = convert(Plan, given)
    if plan.how == "tune" and plan.trials is None:
        raise Invalid({"trials": "Enter how many trials each tuning has."})
    if plan.how != "tune":
        plan = msgspec.structs.replace(plan, trials=None, time_limit_s=None)
    return plan


def _check_possible(check: RegressionCheck, run: Run | None, how: str) -> None:
    """Raises `Invalid` if it would fail from the beginning; `run` is the one that is compiled, or tuned again."""
    if how == How.BENCHMARK:
        if check.newest_library() is None:
            raise Invalid(
                {"how": "There is no library yet that could be measured: compile the run first, or choose another way."}
            )
    elif run is None:
        raise Invalid({"how": "None of its runs is left."})
    elif how == How.TUNE:
        if not run.can_tune:
            raise Invalid({"how": "The run wasn't launched here, so it can't be tuned again. Choose another way."})
        if check.machine_trouble:
            raise Invalid({"how": check.machine_trouble})
    elif trouble := compile_trouble(run, "library", wait=False):
        raise Invalid({"run": trouble})


def _name(given: Any) -> str:
    """A name that consists of digits would be taken for a run's number."""
    name = given.strip() if isinstance(given, str) else ""
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable() or name.isdecimal():
        raise Invalid({"name": f"Must be one line of 1 to {LONGEST_NAME} characters, and not only digits."})
    return name


def _time(given: Any) -> time:
    match = re.fullmatch(r"([01]\d|2[0-3]):([0-5]\d)(?::00)?", given.strip()) if isinstance(given, str) else None
    if match is None:
        raise Invalid({"at": f"Must be a time of day, from 00:00 to 23:59, not {str(given)[:20]!r}."})
    return time(int(match[1]), int(match[2]))


def _options(run: Run, given: Any, plan: Plan) -> dict[str, Any]:
    """The engine's options of each tuning: those that are given, otherwise the run's, but with a warm start and without its seed."""
    if plan.how != "tune":
        if given:
            raise Invalid({"options": "Only a check that tunes has options."})
        return {}
    if not isinstance(given, (Mapping, type(None))):
        raise Invalid({"options": "Must be an object of option names and values."})
    engine = ENGINES[run.engine]
    mine = {**run.options, "warm_start": True, **(given or {}), "seed": None}
    try:
        options = convert(engine.options, mine)
    except Invalid as error:
        raise Invalid({f"options.{name}": message for name, message in error.fields.items()}) from error
    if wrong := options.contradictions():
        raise Invalid({f"options.{name}": message for name, message in wrong.items()})
    found: dict[str, Any] = msgspec.to_builtins(options)
    return found


def _base(check: RegressionCheck, given: Any) -> CheckResult | None:
    if given in (None, ""):
        return None
    number = _number(given)
    result = None if number is None else check.results.filter(pk=number).first()
    if result is None or result.spread is None:
        raise Invalid({"base": f"{str(given)[:20]} is no result of this check with a latency and its noise."})
    return result
