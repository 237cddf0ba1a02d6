"""What is left to gain from a run, in words."""

from __future__ import annotations

from typing import Any

from dashboard.presentation import units
from tuning.reads.gaining import Gain, Roof, Verdict
from tuning.wording import SPACE, listed, plus_minus

MOST_NAMED = 3
"""More tasks than this aren't named in a sentence."""


def shown(verdict: Verdict) -> dict[str, Any]:
    """What the panel and the table of tasks show."""
    return {
        "sentences": sentences(verdict),
        "cells": [_cells(gain, verdict.run.machine_name) for gain in verdict.gains if gain.best_known or gain.roof],
    }


def sentences(verdict: Verdict) -> list[str]:
    """What there is to say, the most important first; nothing if nothing is known, or if a simulator tells the time."""
    if verdict.run.simulator:
        return []
    return [sentence for sentence in (_outlook(verdict), _if_equalled(verdict), _to_roof(verdict)) if sentence]


def _outlook(verdict: Verdict) -> str:
    return " ".join(part for part in (_held(verdict), _expected(verdict)) if part)


def _held(verdict: Verdict) -> str:
    holders = verdict.holders
    slower = [gain for gain in verdict.gains if gain.if_equalled_s]
    if holders is None or (verdict.forecast is None and len(slower) == 1):  # The other sentence names it.
        return ""
    what = "is left to the roofline" if verdict.by_roof else "can still be gained"
    share = f"{holders.share * 100:.0f}{SPACE}% of what {what}"
    numbers = holders.indices
    if len(numbers) > MOST_NAMED:
        return f"{len(numbers)} of {verdict.run.tasks_chosen} tasks hold {share}."
    return f"{_named(numbers).capitalize()} hold{'' if len(numbers) > 1 else 's'} {share}."


def _expected(verdict: Verdict) -> str:
    """As in `200 more trials are expected to bring 4 to 7 %`."""
    forecast, estimate_s = verdict.forecast, verdict.run.estimated_latency_s
    if forecast is None or not estimate_s:
        return ""
    noise = verdict.run.noise
    doubt = ""
    if noise and forecast.most_s / estimate_s < noise:
        doubt = f", within the run’s noise of {plus_minus(noise)}"
    number = f"{forecast.trials:,} more trial{'s are' if forecast.trials > 1 else ' is'}"
    return f"{number} expected to bring {_between(forecast.least_s / estimate_s, forecast.most_s / estimate_s)}{doubt}."


def _between(least: float, most: float) -> str:
    low, high = round(least * 100), round(most * 100)
    if high < 1:
        return f"less than 1{SPACE}%"
    if low == high:
        return f"about {high}{SPACE}%"
    return f"{low} to {high}{SPACE}%" if low else f"up to {high}{SPACE}%"


def _if_equalled(verdict: Verdict) -> str:
    if verdict.if_equalled_s is None:
        return ""
    slower = [gain for gain in verdict.gains if gain.if_equalled_s]
    if not slower:
        return f"No other run is faster on {_covered(verdict)}."
    first = max(slower, key=lambda gain: gain.if_equalled_s or 0)
    gained = f"{units.latency(verdict.if_equalled_s)}{_of_estimate(verdict)}"
    several = f"{len(slower)} tasks, most of all in task {first.task.index}"
    where = several if len(slower) > 1 else f"task {first.task.index}"
    return f"Other runs are faster in {where}: equalling them would gain {gained}."


def _to_roof(verdict: Verdict) -> str:
    """What the estimate would be if the machine computed, or moved data, as fast as it can."""
    left_s, estimate_s, roofline = verdict.to_roof_s, verdict.run.estimated_latency_s, verdict.roofline
    if left_s is None or not estimate_s or roofline is None:
        return ""
    low = ", or even less: other processes used the machine while that was measured" if roofline.is_disturbed else ""
    share = units.percent(left_s / estimate_s)
    least = f"At the roofline of {roofline.machine} the tasks would take {units.latency(estimate_s - left_s)}, {share} less{low}."
    above = sum(gain.roof is not None and gain.roof.is_broken for gain in verdict.gains)
    if not above:
        return least
    return f"{least} {above} task{'s are' if above > 1 else ' is'} above it, so it was probably measured too low: have the machine measured again."


def _of_estimate(verdict: Verdict) -> str:
    share = verdict.if_equalled
    return "" if share is None else f" ({units.percent(share)} of the estimate)"


def _covered(verdict: Verdict) -> str:
    """The tasks of which another run's latency is known."""
    known = [gain.task.index for gain in verdict.gains if gain.if_equalled_s is not None]
    if len(known) == sum(gain.task.chosen for gain in verdict.gains):
        return "any of its tasks"
    return (
        _named(known) if len(known) <= MOST_NAMED else f"any of the {len(known)} tasks that others have measured, too"
    )


def _named(numbers: list[int]) -> str:
    return f"task{'s' if len(numbers) > 1 else ''} {listed(numbers)}"


def _cells(gain: Gain, machine: str) -> dict[str, Any]:
    known, roof = gain.best_known, gain.roof
    return {
        "task": gain.task.index,
        "known": known,
        "origin": known and _origin(known["run_name"], known["trial"], known["machine"], machine, known["tvm"]),
        "if_equalled_s": gain.if_equalled_s,
        "if_equalled": gain.if_equalled,
        "roof": roof and {"reached": roof.reached, "by": roof.bound.by, "why": why(roof)},
    }


def why(roof: Roof) -> str:
    """As in `1.200 MFLOP on 1.2 MB, 0.95 FLOP a byte: bound by memory to at least 57.00 µs`."""
    bound = roof.bound
    flop = f"{units.flop(roof.task.flop)}FLOP on " if roof.task.flop else ""
    intensity = f", {bound.intensity:.3g}{SPACE}FLOP a byte" if roof.task.flop else ""
    return f"{flop}{units.bytes_label(roof.size)}{intensity}: bound by {bound.by} to at least {units.latency(bound.latency_s)}"


def _origin(run: str, trial: int, by: str | None, here: str, tvm: str | None) -> str:
    """Where a latency comes from; its machine if that isn't the run's own."""
    where = f" on {by}" if by and by != here else ""
    return f"Trial {trial:,} of {run}{where}, {f'TVM {tvm}' if tvm else 'TVM not recorded'}"
