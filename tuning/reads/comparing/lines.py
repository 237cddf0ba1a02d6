"""The curves of a compared run: its exact estimate and its speed, over trials and time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import NamedTuple

from tuning.models import Run
from tuning.reads.curves import CurvesDict, LatencyColumns, curves

from .shapes import SpeedColumns

POINTS = 512
"""Trials that the speed is computed from."""
WINDOWS, FEW, BATCH = 48, 8, 16
"""Points of the speed curve. A short run has fewer, so that each covers about one batch: trials of a batch end in bursts."""
KEPT = 64
"""Runs whose curves are cached, the most recently used ones."""


class Lines(NamedTuple):
    estimate: LatencyColumns
    speed: SpeedColumns


_kept: OrderedDict[Hashable, Lines] = OrderedDict()


def lines_of(run: Run) -> Lines:
    """The run's curves up to its last trial, cached."""
    # The time of creation, since a new database reuses ids.
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
    """Over stretches with the same number of trials; the first one begins with the run."""
    allocations = [task["allocation"] for task in shown["tasks"]]
    points = sorted(point for one in allocations for point in zip(one["number"], one["at_s"], strict=True))
    stretch = max(1, -(-len(points) // WINDOWS), min(BATCH, len(points) // FEW))
    columns: SpeedColumns = {"number": [], "at_s": [], "speed": []}
    before = (0, 0.0)
    for number, at_s in points[stretch - 1 :: stretch]:
        # Trials that end at the same moment count in the next stretch.
        if at_s is not None and at_s > before[1]:
            columns["number"].append(number)
            columns["at_s"].append(at_s)
            columns["speed"].append((number - before[0]) / (at_s - before[1]))
            before = (number, at_s)
    return columns
