"""What is drawn of a run beside others: its estimate, exact, and its speed, over trials and time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import NamedTuple

from tuning.models import Run
from tuning.reads.curves import CurvesDict, LatencyColumns, curves

from .shapes import SpeedColumns

POINTS = 512
"""Trials of a run that its speed is taken from."""
WINDOWS, FEW, BATCH = 48, 8, 16
"""Into which these are parted for the speed: fewer in a short run, so that each has about a batch, whose trials come in bursts."""
KEPT = 64
"""Runs whose lines are kept, each up to some trial: those that were looked at last."""


class Lines(NamedTuple):
    """What is drawn of a run over trials and time."""

    estimate: LatencyColumns
    speed: SpeedColumns


_kept: OrderedDict[Hashable, Lines] = OrderedDict()


def lines_of(run: Run) -> Lines:
    """The run's lines up to its last trial: the same for all who watch it, and for good once it has ended."""
    # A new database has other runs by the same keys.
    key = run.pk, run.created_at, run.trials_done
    lines = _kept.pop(key, None) or _drawn(run)
    _kept[key] = lines
    if len(_kept) > KEPT:
        _kept.popitem(last=False)
    return lines


def _drawn(run: Run) -> Lines:
    shown = curves(run, POINTS)
    return Lines(shown["estimate"], _speed(shown))


def _speed(shown: CurvesDict) -> SpeedColumns:
    """Over stretches of equally many trials, the first from the run's start on."""
    allocations = [task["allocation"] for task in shown["tasks"]]
    points = sorted(point for one in allocations for point in zip(one["number"], one["at_s"], strict=True))
    stretch = max(1, -(-len(points) // WINDOWS), min(BATCH, len(points) // FEW))
    columns: SpeedColumns = {"number": [], "at_s": [], "speed": []}
    before = (0, 0.0)
    for number, at_s in points[stretch - 1 :: stretch]:
        # Trials that end at once are counted in the next stretch.
        if at_s > before[1]:
            columns["number"].append(number)
            columns["at_s"].append(at_s)
            columns["speed"].append((number - before[0]) / (at_s - before[1]))
            before = (number, at_s)
    return columns
