"""Compares our engine with stock TVM, and saves each comparison."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import msgspec

from . import sides
from .plan import Pair
from .sides import Best, Broken
from .timeline import Comparison, Estimate, Timeline, estimates


class Journal:
    """The results file, rewritten after each comparison."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.comparisons: list[Comparison] = []
        if path.exists():
            try:
                self.comparisons = msgspec.json.decode(path.read_bytes(), type=list[Comparison])
            except msgspec.DecodeError as error:
                raise Broken(f"{path} isn't a results file of this version: {error}") from error

    def has(self, pair: Pair) -> bool:
        """Whether this pair has been compared."""
        return pair.key in {
            Pair(one.workload, one.batch, len(one.stock.trials), one.seed).key for one in self.comparisons
        }

    def add(self, comparison: Comparison) -> None:
        """Adds the comparison and saves the file."""
        self.comparisons.append(comparison)
        new = self.path.with_suffix(".new")
        new.write_bytes(msgspec.json.encode(self.comparisons))
        new.replace(self.path)


def compare(pair: Pair, folder: Path, say: Callable[[str], None]) -> Comparison:
    """Tunes with both engines in turn (ours first for odd seeds), then measures again, together, every record that was ever the best.

    If stock TVM's result is better by more than 5 %, ours continues until it has taken as long as stock TVM.
    """
    if pair.seed % 2:
        tuned = _ours(pair, say)
        stock_timeline, stock_best = _stock(pair, folder, say)
    else:
        stock_timeline, stock_best = _stock(pair, folder, say)
        tuned = _ours(pair, say)
    again = _measured_again(tuned, tuned.best, stock_best)
    comparison = Comparison(pair.workload, pair.batch, pair.seed, tuned.timeline, stock_timeline, *again)
    if not comparison.has_time_left:
        return comparison
    say("  ours continues, since stock TVM's result is better")
    return _with_continuation(
        comparison, *_measured_again(tuned, sides.go_on(tuned, stock_timeline.wall_s), stock_best)
    )


def _ours(pair: Pair, say: Callable[[str], None]) -> sides.Tuned:
    tuned = sides.ours(pair)
    say(_summary("ours", tuned.timeline))
    return tuned


def _stock(pair: Pair, folder: Path, say: Callable[[str], None]) -> tuple[Timeline, Best]:
    timeline, best = sides.stock(pair, folder)
    say(_summary("stock", timeline))
    return timeline, best


def _with_continuation(comparison: Comparison, ours: list[Estimate], stock: list[Estimate]) -> Comparison:
    """The comparison with new estimates: at equal trials, and from the continuation."""
    end = comparison.ours.trials[-1].at_s
    now, later = ([one for one in ours if (one[0] <= end) is then] for then in (True, False))
    return msgspec.structs.replace(comparison, ours_estimates=now, stock_estimates=stock, later=later)


def _measured_again(tuned: sides.Tuned, *sides_best: Best) -> list[list[Estimate]]:
    """The estimates of each side, from latencies measured again, in turn, by one process."""
    weights, target = tuned.timeline.weights, tuned.run.target
    found = [records_used(best) for best in sides_best]
    texts = sorted({text for best in found for _, _, text in best})
    latency_s = dict(zip(texts, sides.measured_together(target, texts), strict=True))
    return [estimates([(at_s, task, latency_s[text]) for at_s, task, text in best], weights) for best in found]


def records_used(best: Best) -> list[tuple[float, int, str]]:
    """(time, task, record) of every best record that a side's estimates use, ordered by time.

    A record that was beaten before every task had one isn't used, and might take very long to measure.
    """
    since = max((found[0][0] if found else math.inf for found in best.values()), default=math.inf)
    used = [
        (at_s, task, text)
        for task, found in best.items()
        for (at_s, text), (beaten_s, _) in pairwise([*found, (math.inf, "")])
        if beaten_s > since
    ]
    return sorted(used)


def _summary(side: str, timeline: Timeline) -> str:
    estimate_s = timeline.final_estimate_s()
    latency = "not every task measured" if estimate_s is None else f"{estimate_s * 1e3:.4g} ms"
    return (
        f"  {side:5}  {len(timeline.trials)} trials in {timeline.wall_s:.0f} s, {timeline.trials_a_second:.2f} a second, "
        f"the first after {timeline.first_s:.1f} s; estimate {latency}"
    )
