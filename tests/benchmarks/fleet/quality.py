"""What late results cost: the same trials with many candidates out at once, and one by one.

`python -m tests.benchmarks.fleet.quality [--slots 8] [--trials 64] [--seeds 3]`. The search is the real one. Machines that
shared this one would disturb each other, so there is one measuring process: it measures each distinct candidate once, alone and
while the engine is stopped. The engine learns of it when as many candidates are held as there are slots. At the end the best candidates of both
runs are measured again in turn, since a best is also the luckiest of many single measurements.
"""

from __future__ import annotations

import argparse
import hashlib
import heapq
import math
import os
import signal
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import Protocol

import msgspec

from tests.benchmarks.engine.plan import WORKLOADS
from tests.tuning.engines.pooling import Machine, pool_start
from tests.tuning.engines.running import Engine, start
from tuning.engines.wire.pools.messages import Probe, Probed, Ready
from tuning.engines.wire.protocol import (
    Candidate,
    Finished,
    Measured,
    NetworkSpec,
    Options,
    Pool,
    TasksExtracted,
    encode,
)

BATCH = 16
ROUNDS = 7
AGAIN = 4
"""How many of a run's best candidates are measured again: the best of them all in truth may be one that was disturbed."""


class Outcome(msgspec.Struct, frozen=True):
    """One tuning: how many candidates were held by machines at once, and the best one in the end."""

    slots: int
    best_s: float
    """As measured again beside the other run's."""
    measured: int
    """How many of its candidates weren't known from another run."""


class Plan(msgspec.Struct, frozen=True):
    """What both runs tune."""

    workload: str
    seed: int
    trials: int


class Comparison(msgspec.Struct, frozen=True):
    """Runs of one plan, of which the first had one slot."""

    plan: Plan
    outcomes: list[Outcome]

    def ratio(self, slots: int) -> float:
        """Above 1 if the run with so many slots ended with a slower best."""
        best_s = {each.slots: each.best_s for each in self.outcomes}
        return best_s[slots] / best_s[1]


class Latencies(Protocol):
    """Knows candidates' latencies; its length is how many."""

    def __len__(self) -> int: ...

    def answer(self, candidate: Candidate) -> Measured:
        """The answer for the candidate."""

    def again(self, candidates: Sequence[Candidate]) -> list[float]:
        """The latency of each, for a comparison."""


class Table:
    """What each distinct candidate took, measured once on one machine, alone."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._known: dict[str, Measured] = {}

    def __len__(self) -> int:
        return len(self._known)

    def answer(self, candidate: Candidate) -> Measured:
        """The answer for the candidate."""
        key = hashlib.sha256(candidate.module).hexdigest()
        if key not in self._known:
            # No race: a short measurement depends on what was best in another run.
            self._machine.ask(msgspec.structs.replace(candidate, limit_s=None))
            self._known[key] = self._machine.until(Measured)
        return msgspec.structs.replace(self._known[key], id=candidate.id)

    def again(self, candidates: Sequence[Candidate]) -> list[float]:
        """The fastest round of each, measured in turn."""
        fastest = [math.inf] * len(candidates)
        for _ in range(2):
            for index, candidate in enumerate(candidates):
                self._machine.ask(Probe(candidate, ROUNDS))
                probed: Probed = self._machine.until(Probed)
                fastest[index] = min(fastest[index], *probed.run_secs)
        return fastest


def tune(plan: Plan, slots: int, table: Latencies, folder: Path) -> list[Candidate]:
    """Tune as if machines held this many candidates at once, and return the best few.

    A result arrives when all slots have one, so each comes as late as if all candidates took equally long.
    """
    folder.mkdir()
    chosen = WORKLOADS[plan.workload]
    given = start(
        folder / "work",
        network=NetworkSpec(chosen.network, chosen.options),
        options=Options(trials_per_batch=BATCH, seed=plan.seed),
        trials_budget=plan.trials,
        # One machine looks nowhere ahead, as a run without a pool.
        pool=Pool(slots=slots) if slots > 1 else Pool(slots=1, look_ahead=1.0),
    )
    valid: list[tuple[float, Candidate]] = []
    with Engine(given, folder / "console") as engine:
        sent, held = 0, deque[Candidate]()
        for event in engine:
            if isinstance(event, Candidate):
                sent += 1
                held.append(event)
            while len(held) >= slots or (held and sent == plan.trials):
                candidate = held.popleft()
                with stopped(engine):
                    answer = table.answer(candidate)
                engine.write(encode(answer))
                if answer.run_secs:
                    valid.append((fmean(answer.run_secs), candidate))
        assert engine.seen[-1] == Finished("budget"), engine.seen[-1]
        assert len(engine.trials) == plan.trials
    assert valid, "no trial was valid"
    return [candidate for _, candidate in heapq.nsmallest(AGAIN, valid, key=itemgetter(0))]


@contextmanager
def stopped(engine: Engine) -> Iterator[None]:
    """Stop the engine's processes meanwhile: a search would disturb a measurement."""
    os.killpg(engine.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(engine.process.pid, signal.SIGCONT)


def compare(plan: Plan, slots: Sequence[int], table: Latencies, folder: Path) -> Comparison:
    """Tune from the same seed with one slot and with each of these numbers, and measure the results side by side."""
    best: list[list[Candidate]] = []
    measured: list[int] = []
    for each in (1, *slots):
        before = len(table)
        best.append(tune(plan, each, table, folder / f"{plan.workload}-{plan.seed}-{each}"))
        measured.append(len(table) - before)
    again = iter(table.again([candidate for candidates in best for candidate in candidates]))
    best_s = [min(islice(again, len(candidates))) for candidates in best]
    return Comparison(plan, list(map(Outcome, (1, *slots), best_s, measured)))


@contextmanager
def measuring(folder: Path) -> Iterator[Table]:
    """The table, with a measuring process for this machine's CPU."""
    with Engine(start(folder / "target", trials_budget=1, pool=Pool(slots=0)), folder / "console") as engine:
        target = engine.until(TasksExtracted).target
    with Machine(pool_start("here", target, min_repeat_ms=100), folder / "console") as machine:
        machine.until(Ready)
        yield Table(machine)


def geometric_mean(comparisons: Sequence[Comparison], slots: int) -> float:
    """Of the ratios."""
    return math.exp(fmean(math.log(each.ratio(slots)) for each in comparisons))


def main() -> None:
    """Compare, seed by seed, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.fleet.quality", description=__doc__)
    parser.add_argument("--workloads", nargs="+", choices=["matmul", "conv2d"], default=["matmul", "conv2d"])
    parser.add_argument("--slots", type=int, nargs="+", default=[8], help="candidates that machines hold at once")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    # Engines must end with this program, and none may be left stopped.
    signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    found: list[Comparison] = []
    with tempfile.TemporaryDirectory(prefix="quality-") as name, measuring(Path(name)) as table:
        for seed in range(1, given.seeds + 1):
            for workload in given.workloads:
                one = compare(Plan(workload, seed, given.trials), given.slots, table, Path(name))
                found.append(one)
                sys.stdout.write(f"{msgspec.json.encode(one).decode()}\n")
                sys.stdout.flush()
    for workload in given.workloads:
        ours = [one for one in found if one.plan.workload == workload]
        for slots in given.slots:
            ratio = geometric_mean(ours, slots)
            sys.stdout.write(f"{workload}, {slots} slots: {ratio:.3f} times the latency with one ({len(ours)} seeds)\n")


if __name__ == "__main__":
    main()
