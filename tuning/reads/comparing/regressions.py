"""Whether a network got slower: the latest benchmark of a library against earlier ones of the same network, target, device and machine."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Literal

from typing_extensions import TypedDict

from tuning.models import Benchmark, Compilation
from tuning.models.run import measures_on
from tuning.noise import difference, noise

BASE = 5
"""The base is the median of so many good benchmarks, the latest ones."""
MOST = 200
"""Earlier benchmarks that are looked at."""
Outcome = Literal["regression", "improvement", "within noise", "unknown"]


class Verdict(TypedDict):
    """Latencies in seconds. `change` and `noise` are relative to the base: 0.08 is 8 % slower."""

    verdict: Outcome
    latency_s: float
    base_s: float | None
    """The median of the base; null if there is nothing to compare with."""
    change: float | None
    noise: float | None
    """What the noise of the base and the latest benchmark explains together; null if one of them has too few rounds."""
    base: list[int]
    """The benchmarks that are the base, oldest first."""


def earlier(latest: Benchmark, base: int | None = None) -> Sequence[Benchmark]:
    """The benchmarks that the latest one is compared with, oldest first: alike in all but time; only the one that is pinned, if any.

    A library that wasn't verified doesn't count.
    """
    compilation = latest.compilation
    run = compilation.run
    alike = Benchmark.objects.annotate(on=measures_on("compilation__run__")).filter(
        on=run.measures_on,
        compilation__run__deleted_at__isnull=True,
        compilation__run__project=run.project_id,
        compilation__run__network=run.network_id,
        compilation__run__engine=run.engine,
        compilation__run__target_fingerprint=run.target_fingerprint,
        compilation__source=compilation.source,
        compilation__machine=compilation.machine_id,
        compilation__verified=True,
    )
    before = alike.exclude(pk=latest.pk).filter(at__lte=latest.at)
    return list((before.filter(pk=base) if base is not None else before).order_by("-at", "-pk")[:MOST])[::-1]


def latest_of(compilation: Compilation) -> Benchmark | None:
    """The newest benchmark of a library that was verified."""
    newest = Benchmark.objects.select_related("compilation__run").filter(compilation=compilation).first()
    return newest if newest and newest.compilation.verified else None


def judged(latest: Benchmark, before: Sequence[Benchmark]) -> Verdict:
    """The verdict on the latest benchmark. Earlier ones that were regressions themselves, each in its turn, aren't part of the base."""
    good: list[Benchmark] = []
    for one in before:
        if _verdict(one, good)["verdict"] != "regression":
            good = [*good, one][-BASE:]
    return _verdict(latest, good)


def _verdict(latest: Benchmark, good: Sequence[Benchmark]) -> Verdict:
    rounds = latest.rounds["tuned"]
    found = Verdict(
        verdict="unknown", latency_s=median(rounds), base_s=None, change=None, noise=None, base=[one.pk for one in good]
    )
    if not good:
        return found
    base_s = median(median(one.rounds["tuned"]) for one in good)
    told = difference(median(rounds), base_s, noise(rounds), _noise(good))
    found |= {"base_s": base_s, "change": told.change, "noise": told.noise}
    if told.within_noise is not None:
        slower: Outcome = "regression" if told.change > 0 else "improvement"
        found["verdict"] = "within noise" if told.within_noise else slower
    return found


def _noise(good: Sequence[Benchmark]) -> float | None:
    """That of the base's rounds, or from one benchmark to the next if that is larger; None if a benchmark has too few rounds."""
    within = [noise(one.rounds["tuned"]) for one in good]
    if None in within:
        return None
    between = noise([median(one.rounds["tuned"]) for one in good])
    return max(median(each for each in within if each is not None), between or 0.0)
