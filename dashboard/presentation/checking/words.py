"""What a regression check does, when, and what it has found, in words."""

from __future__ import annotations

from datetime import date, datetime, timedelta

from django.conf import settings
from typing_extensions import TypedDict

from dashboard.presentation import units
from tuning.models import CheckResult, RegressionCheck
from tuning.models.checking import AT, HOURS, WEEKDAYS
from tuning.wording import difference, plus_minus

How = RegressionCheck.How
HOW = {
    How.COMPILE: "compiles with the best records known, and measures",
    How.BENCHMARK: "measures the newest library again",
    How.TUNE: "tunes, compiles with the best records known, and measures",
}
TONES = {
    "": "running",
    "new": "queued",
    "first": "finished",
    "good": "finished",
    "better": "finished",
    "within noise": "finished",
    "regression": "failed",
    "failed": "failed",
    "skipped": "stopped",
}
"""By state or verdict: the status whose colors its chip has."""


class ShownResult(TypedDict):
    """A row of the history."""

    result: CheckResult
    chip: str
    tone: str
    against: str
    note: str
    tvm: str
    can_pin: bool


def schedule(check: RegressionCheck) -> str:
    """`every day at 02:15 (Europe/Berlin)`: times of a schedule aren't the browser's."""
    zone = f"({settings.SCHEDULE_ZONE.key})"
    at = f"{check.at:%H:%M}"
    if check.every == "week":
        return f"every {WEEKDAYS[check.weekday].capitalize()} at {at} {zone}"
    if check.every == "day":
        return f"every day at {at} {zone}"
    second = datetime.combine(date(2000, 1, 1), check.at) + timedelta(hours=HOURS[check.every])
    return f"every {check.every}, at {at}, {second:%H:%M}, … {zone}"


def doing(check: RegressionCheck) -> str:
    """What it does each time."""
    trials = f" ({check.trials:,} trials)" if check.trials else ""
    return HOW[How(check.how)].replace("tunes,", f"tunes{trials},")


def state(check: RegressionCheck) -> tuple[str, str]:
    """What is said of it in a word or two, and the status whose colors that has."""
    name = {"new": "not measured yet", "failed": "failing"}.get(check.state, check.state)
    return name, TONES[check.state]


def change(result: CheckResult | None) -> str:
    """The latency against the base with its noise: `+7.9 % (± 2 %)`; empty if there is nothing to compare with."""
    if result is None or result.change is None or result.noise is None:
        return ""
    return f"{difference(result.change, within_noise=abs(result.change) <= result.noise)} ({plus_minus(result.noise)})"


def headline(check: RegressionCheck) -> str:
    """A sentence about its latest result; empty before there is one."""
    latest = check.latest
    if latest is None:
        return ""
    if latest.verdict == CheckResult.Verdict.FAILED:
        return f"The latest result failed: {latest.error}"
    now = units.latency(latest.latency_s)
    if latest.change is None or latest.noise is None:
        return f"{now}: the first result, with which later ones are compared."
    against = f"the base of {units.latency(latest.base_s)}, noise is {plus_minus(latest.noise)}"
    if abs(latest.change) <= latest.noise:
        return f"{now}: as fast as {against}."
    return f"{now}: {units.percent(abs(latest.change))} {'slower' if latest.change > 0 else 'faster'} than {against}."


def alert(check: RegressionCheck) -> str:
    """What the network's page warns of; empty if nothing is wrong."""
    return headline(check) if check.state in (check.State.REGRESSION, check.State.FAILED) else ""


def shown(result: CheckResult, base: int | None) -> ShownResult:
    verdict = result.verdict
    return {
        "result": result,
        "chip": verdict or AT[CheckResult.Stage(result.stage)],
        "tone": TONES[verdict],
        "against": change(result),
        "note": result.error or "",
        "tvm": str(result.versions.get("apache-tvm", "")) or units.UNKNOWN,
        "can_pin": result.spread is not None and result.pk != base,
    }


def badge_address(check: RegressionCheck) -> str:
    """In full where the site's address is known."""
    return f"{settings.SITE_URL or ''}{check.badge_path}"
