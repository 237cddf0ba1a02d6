"""How much of the spread of latencies each choice explains on its own.

The measure is ε², the correlation ratio η² without its bias (Kelley, 1935), of the logarithm of the latency: 1 if all trials with the
same value are equally fast, 0 if the value tells nothing. It describes the trials that were tried, which a search chooses: it isn't an
experiment. A share counts only if shuffled latencies give no larger one for any choice in 19 shuffles, which chance does once in 20 times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Generic, NamedTuple, TypeVar

LEAST_TRIALS = 30
"""With fewer, nothing is told."""
SHUFFLES = 19
K = TypeVar("K")


class Importance(NamedTuple, Generic[K]):
    """`shares` has what each choice explains, from 0 to 1, the largest first; `chance` the largest share that shuffled latencies gave."""

    shares: list[tuple[K, float]]
    chance: float


def importance(columns: Mapping[K, Sequence[object]], latencies: Sequence[float]) -> Importance[K] | None:
    """`columns` has the value of each choice in each trial. None if there are too few trials, or all are equally fast."""
    if len(latencies) < LEAST_TRIALS or len(set(latencies)) == 1:
        return None
    logs = [math.log(latency) for latency in latencies]
    mean = math.fsum(logs) / len(logs)
    spread = [value - mean for value in logs]
    coded = {name: _coded(values) for name, values in columns.items() if len(set(values)) > 1}
    shares = [(name, _share(codes, spread)) for name, codes in coded.items()]
    random, chance = Random(0), 0.0  # noqa: S311 - the same figures each time
    for _ in range(SHUFFLES):
        random.shuffle(spread)
        chance = max([chance, *(_share(codes, spread) for codes in coded.values())])
    return Importance(sorted(shares, key=lambda one: -one[1]), chance)


def _coded(values: Sequence[object]) -> list[int]:
    numbers: dict[object, int] = {}
    return [numbers.setdefault(value, len(numbers)) for value in values]


def _share(codes: Sequence[int], spread: Sequence[float]) -> float:
    """ε² of deviations from the mean; 0 if each trial has a value of its own."""
    groups = max(codes) + 1
    if groups >= len(codes):
        return 0.0
    sums, counts = [0.0] * groups, [0] * groups
    for code, value in zip(codes, spread, strict=True):
        sums[code] += value
        counts[code] += 1
    total = math.fsum(value * value for value in spread)
    within = total - math.fsum(part * part / count for part, count in zip(sums, counts, strict=True))
    return max(0.0, 1 - (within / (len(codes) - groups)) / (total / (len(codes) - 1)))
