"""What a result of a regression check says, in a sentence."""

from __future__ import annotations

from .results import CheckResult

AT = {
    CheckResult.Stage.BEGIN: "about to begin",
    CheckResult.Stage.TUNE: "tuning",
    CheckResult.Stage.MEASURE: "building or measuring the library",
}
"""By stage."""


def told(result: CheckResult) -> str:
    """The verdict and why, such as: regression: 13.6 ms, +7.9% against the base of 12.6 ms, noise is ±2.1%."""
    if result.goes_on:
        return f"It goes on: {AT[CheckResult.Stage(result.stage)]}."
    now = "" if result.latency_s is None else f"{result.latency_s * 1e3:.4g} ms"
    if result.error:
        return f"{result.verdict}: {now}{'. ' if now else ''}{result.error}"
    if result.base_s is None or result.change is None or result.noise is None:
        return f"{result.verdict}: {now}. There is nothing to compare it with yet."
    against = f"{now}, {result.change:+.1%} against the base of {result.base_s * 1e3:.4g} ms"
    return f"{result.verdict}: {against}, noise is ±{result.noise:.1%}."
