"""Whether a network got slower: the latest benchmark of a library against earlier ones of the same network, target, device and machine."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Literal, NamedTuple

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
    """The verdict on the latest benchmark. Earlier ones that were regressions themselves, each in its turn, aren't part of the base.

    Those with too few rounds for their noise, as before large networks had enough, are only if there are no others.
    """
    good: list[Benchmark] = []
    known = [one for one in before if noise(one.rounds["tuned"]) is not None]
    for one in known or before:
        if _verdict(one, good)["verdict"] != "regression":
            good = [*good, one][-BASE:]
    return _verdict(latest, good)


def _verdict(latest: Benchmark, good: Sequence[Benchmark]) -> Verdict:
    found = weighed(latest.rounds["tuned"], [one.rounds["tuned"] for one in good])
    return {
        "verdict": found.verdict,
        "latency_s": found.latency_s,
        "base_s": found.base_s,
        "change": found.change,
        "noise": found.noise,
        "base": [one.pk for one in good],
    }


class Weighed(NamedTuple):
    """A `Verdict` without the base's benchmarks."""

    verdict: Outcome
    latency_s: float
    base_s: float | None = None
    change: float | None = None
    noise: float | None = None


def weighed(rounds: Sequence[float], good: Sequence[Sequence[float]]) -> Weighed:
    """The verdict on a benchmark by its rounds and those of the good ones before, in seconds."""
    found = Weighed("unknown", median(rounds))
    if not good:
        return found
    base_s = median(median(one) for one in good)
    told = difference(found.latency_s, base_s, noise(rounds), _noise(good))
    found = found._replace(base_s=base_s, change=told.change, noise=told.noise)
    if told.within_noise is None:
        return found
    slower: Outcome = "regression" if told.change > 0 else "improvement"
    return found._replace(verdict="within noise" if told.within_noise else slower)


def _noise(good: Sequence[Sequence[float]]) -> float | None:
    """That of the base's rounds, or from one benchmark to the next if that is larger; None if a benchmark has too few rounds."""
    within = [noise(one) for one in good]
    if None in within:
        return None
    between = noise([median(one) for one in good])
    return max(median(each for each in within if each is not None), between or 0.0)
