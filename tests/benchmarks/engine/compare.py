"""One comparison after the other; what is measured is kept."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import msgspec

from . import sides
from .plan import Pair
from .sides import Best, Broken
from .timeline import Comparison, Course, Estimate, estimates


class Journal:
    """The results' file: written anew, whole, after each comparison."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.comparisons: list[Comparison] = []
        if path.exists():
            try:
                self.comparisons = msgspec.json.decode(path.read_bytes(), type=list[Comparison])
            except msgspec.DecodeError as error:
                raise Broken(f"{path} isn't a results' file of this version: {error}") from error

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
    """Both sides in turn (odd seeds: ours first), then their best records side by side, those included that they improved on.

    Where stock TVM ends better by more than 5 %, ours goes on for as long as stock TVM took: quality costs time, not trials.
    """
    if pair.seed % 2:
        tuned = _ours(pair, say)
        stock_course, stock_best = _stock(pair, folder, say)
    else:
        stock_course, stock_best = _stock(pair, folder, say)
        tuned = _ours(pair, say)
    again = _together(tuned, tuned.best, stock_best)
    comparison = Comparison(pair.workload, pair.batch, pair.seed, tuned.course, stock_course, *again)
    if not comparison.has_time_left:
        return comparison
    say("  ours goes on, since stock TVM's is better")
    return _with_more(comparison, *_together(tuned, sides.go_on(tuned, stock_course.wall_s), stock_best))


def _ours(pair: Pair, say: Callable[[str], None]) -> sides.Tuned:
    tuned = sides.ours(pair)
    say(_said("ours", tuned.course))
    return tuned


def _stock(pair: Pair, folder: Path, say: Callable[[str], None]) -> tuple[Course, Best]:
    course, best = sides.stock(pair, folder)
    say(_said("stock", course))
    return course, best


def _with_more(comparison: Comparison, ours: list[Estimate], stock: list[Estimate]) -> Comparison:
    """The comparison with all measured once more: at equal trials, and what came later."""
    end = comparison.ours.trials[-1].at_s
    now, later = ([one for one in ours if (one[0] <= end) is then] for then in (True, False))
    return msgspec.structs.replace(comparison, ours_estimates=now, stock_estimates=stock, later=later)


def _together(tuned: sides.Tuned, *sides_best: Best) -> list[list[Estimate]]:
    """The estimates of each side, from latencies that one process measured in turn."""
    weights, target = tuned.course.weights, tuned.run.target
    found = [counting(best) for best in sides_best]
    texts = sorted({text for best in found for _, _, text in best})
    latency_s = dict(zip(texts, sides.measured_together(target, texts), strict=True))
    return [estimates([(at_s, task, latency_s[text]) for at_s, task, text in best], weights) for best in found]


def counting(best: Best) -> list[tuple[float, int, str]]:
    """When, of which task, and the record of what a side's estimates are made of, in turn.

    What was beaten before every task had a record never counts, and may be very slow to measure.
    """
    since = max((found[0][0] if found else math.inf for found in best.values()), default=math.inf)
    counting = [
        (at_s, task, text)
        for task, found in best.items()
        for (at_s, text), (beaten_s, _) in pairwise([*found, (math.inf, "")])
        if beaten_s > since
    ]
    return sorted(counting)


def _said(side: str, course: Course) -> str:
    estimate_s = course.final_estimate_s()
    latency = "not every task measured" if estimate_s is None else f"{estimate_s * 1e3:.4g} ms"
    return (
        f"  {side:5}  {len(course.trials)} trials in {course.wall_s:.0f} s, {course.trials_a_second:.2f} a second, "
        f"the first after {course.first_s:.1f} s; estimate {latency}"
    )
