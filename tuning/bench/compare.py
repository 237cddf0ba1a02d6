"""One comparison after the other; what is measured is kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from . import sides
from .course import Comparison, Course
from .plan import Pair
from .sides import Best


class Journal:
    """The results' file: written anew, whole, after each comparison."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.comparisons: list[Comparison] = []
        if path.exists():
            self.comparisons = msgspec.json.decode(path.read_bytes(), type=list[Comparison])

    def has(self, pair: Pair) -> bool:
        """Whether the comparison was made already."""
        return pair.key in {
            Pair(one.workload, one.batch, len(one.stock.trials), one.seed).key for one in self.comparisons
        }

    def add(self, comparison: Comparison) -> None:
        """Keep it, whatever happens next."""
        self.comparisons.append(comparison)
        new = self.path.with_suffix(".new")
        new.write_bytes(msgspec.json.encode(self.comparisons))
        new.replace(self.path)


def compare(pair: Pair, folder: Path, say: Callable[[str], None]) -> Comparison:
    """Both sides in turn (odd seeds: ours first), then their best records side by side."""
    done: dict[str, Any] = {}
    for side in ("ours", "stock") if pair.seed % 2 else ("stock", "ours"):
        done[side] = sides.ours(pair) if side == "ours" else sides.stock(pair, folder)
        say(_said(side, done[side][0]))
    our_course, our_best, target = done["ours"]
    stock_course, stock_best = done["stock"]
    then = {task: [one for one in found if one[0] <= our_course.trials[-1].at_s] for task, found in stock_best.items()}
    latencies = _together(target, our_course.weights, [our_best, stock_best, then])
    return Comparison(pair.workload, pair.batch, pair.seed, our_course, stock_course, *latencies)


def _together(target: dict[str, Any], weights: list[int], found: list[Best]) -> list[float | None]:
    """Σ latency × weight of the last records of each; None where a task has none."""
    last = [[one.get(task, [])[-1:] for task in range(len(weights))] for one in found]
    texts = sorted({record for each in last for task in each for _, record in task})
    latency_s = dict(zip(texts, sides.measured_together(target, texts), strict=True))
    return [
        sum(latency_s[task[0][1]] * weight for task, weight in zip(each, weights, strict=True)) if all(each) else None
        for each in last
    ]


def _said(side: str, course: Course) -> str:
    estimate_s = course.final_estimate_s()
    latency = "not every task measured" if estimate_s is None else f"{estimate_s * 1e3:.4g} ms"
    return (
        f"  {side:5}  {len(course.trials)} trials in {course.wall_s:.0f} s, {course.trials_a_second:.2f} a second, "
        f"the first after {course.first_s:.1f} s; estimate {latency}"
    )
