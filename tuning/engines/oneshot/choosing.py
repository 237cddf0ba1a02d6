"""Chooses among each task's best records by measuring them inside the built network.

A trial is measured alone, on the same random numbers each time. In the network, data comes from the function before. Which of several
good records is the fastest may differ.

The network is built once with the best record of each task, once with the second best, and so on. All of these run in turn, timed call by
call. What is fastest for each function makes one more network, which is kept if it is faster than that of the best records.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from statistics import median
from typing import Any, NamedTuple, Protocol

from tuning.engines.proof.rounds import Measure, benchmarked
from tuning.engines.wire.compiling import BestRecord, Choice, Chosen, Inside, Tried

from .profiling import PACKED, Calls, Timed

PASSES = 8
"""Inferences of a network in a round, of which the fastest counts for each function."""
LEAST_ROUNDS, MOST_ROUNDS = 8, 60
CLEARLY = 0.75
"""What is preferred must be faster in at least this share of the rounds."""


class Network(Protocol):
    """A built network with its inputs."""

    def calls(self) -> Calls: ...

    def measure(self, number: int) -> float:
        """The mean seconds of one inference over so many."""
        ...


Build = Callable[[Sequence[BestRecord]], tuple[Network, Mapping[str, int]]]
"""Builds the network with these records, and says which of them each function has, by index."""


def chosen(
    build: Build,
    records: Sequence[BestRecord],
    alternatives: Sequence[Sequence[BestRecord]],
    seconds: float,
    on_progress: Callable[[float], None],
) -> tuple[list[BestRecord], Chosen]:
    """The records to build with, and how they were chosen: see `wire.compiling.Choose`. Progress is from 0 to 1."""
    tasks = [[best, *more] for best, more in zip(records, alternatives, strict=True)]
    built = [build(rank) for rank in _ranks(tasks)]
    (best, record_of), networks = built[0], [network for network, _ in built]
    times = _in_rounds(networks, seconds, lambda share: on_progress(0.5 * share))
    choices = [_choice(function, tasks[nth], times) for function, nth in record_of.items()]
    wanted = list(records)
    for choice in choices:
        nth = record_of[choice.function]
        wanted[nth] = tasks[nth][choice.chosen]
    if wanted == list(records):
        return wanted, Chosen(choices, {}, kept=False)
    sides: dict[Inside, Measure] = {"best": best.measure, "chosen": build(wanted)[0].measure}
    rounds = benchmarked(sides, seconds, lambda share: on_progress(0.5 + 0.5 * share))
    kept = _is_faster(rounds["chosen"], rounds["best"])
    return wanted if kept else list(records), Chosen(choices, rounds, kept)


def _ranks(tasks: Sequence[Sequence[BestRecord]]) -> Iterator[list[BestRecord]]:
    """The best record of each task, then the second best, …: the best again where a task has no more."""
    for rank in zip_longest(*tasks):
        yield [one or task[0] for one, task in zip(rank, tasks, strict=True)]


class _Times(NamedTuple):
    """Of one function: how often an inference calls it, and the seconds of one call in each round."""

    calls: int
    rounds: list[float]


def _in_rounds(
    networks: Sequence[Network], seconds: float, on_progress: Callable[[float], None]
) -> list[dict[str, _Times]]:
    """The times of each network's functions. The networks run in turn, in reverse order in every second round."""
    found: list[dict[str, _Times]] = [{} for _ in networks]
    began = time.monotonic()
    for turn in range(MOST_ROUNDS):
        spent = time.monotonic() - began
        if turn >= LEAST_ROUNDS and spent * (turn + 1) / turn > seconds:
            break
        on_progress(min(1.0, max(spent / seconds, turn / MOST_ROUNDS)))
        for nth in range(len(networks)) if turn % 2 == 0 else reversed(range(len(networks))):
            for function, calls in _fastest(networks[nth]).items():
                times = found[nth].setdefault(function, _Times(len(calls), []))
                times.rounds.append(sum(calls) / len(calls))
    return found


def _fastest(network: Network) -> dict[str, Sequence[float]]:
    """The seconds of each function's calls in the inference in which they took least: noise only ever adds to them."""
    network.calls()  # What another network has replaced in the caches, and weights that still fit there, are fetched again.
    inferences = [network.calls() for _ in range(PASSES)]
    return {name.removesuffix(PACKED): min((one[name] for one in inferences), key=sum) for name in inferences[0]}


def _choice(function: str, task: Sequence[BestRecord], times: Sequence[Mapping[str, _Times]]) -> Choice:
    """The record that is fastest inside, or the best one alone if that isn't clearly slower."""
    measured = [one[function] for one in times[: len(task)]]
    tried = [
        Tried(record.run, record.trial, record.latency_s, median(one.rounds))
        for record, one in zip(task, measured, strict=True)
    ]
    fastest = min(range(len(tried)), key=lambda nth: tried[nth].inside_s)
    is_clear = _is_faster(measured[fastest].rounds, measured[0].rounds)
    return Choice(function, measured[0].calls, tried, fastest if is_clear else 0)


def _is_faster(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether it is in clearly most of the rounds that both were in."""
    rounds = list(zip(one, other, strict=False))
    return sum(ours < theirs for ours, theirs in rounds) >= CLEARLY * len(rounds)


class Loaded:
    """A network that is loaded from its file, for this machine's CPU."""

    def __init__(self, library: str, inputs: Sequence[Any]) -> None:
        import tvm
        from tvm import relax

        self._device, module = tvm.cpu(), tvm.runtime.load_module(library)
        self._arguments = [tvm.runtime.tensor(array, self._device) for array in inputs]
        self._machine = relax.VirtualMachine(module, self._device)
        self._timed = Timed(module, self._arguments)

    def calls(self) -> Calls:
        """See `Timed.calls`."""
        return self._timed.calls()

    def measure(self, number: int) -> float:
        evaluator = self._machine.time_evaluator("main", self._device, number=number, repeat=1)
        return float(evaluator(*self._arguments).results[0])
