"""What late results cost: the same trials with many candidates out at once, and one by one.

`python -m tests.benchmarks.fleet.quality [--slots 8] [--trials 64] [--seeds 1 2 3] [--keep FOLDER | --modelled FOLDER]`. The search is the real one.
Machines that shared this one would disturb each other, so there is one measuring process: it measures each distinct candidate once, alone and
while the engine is stopped. The engine learns of it when as many candidates are held as there are slots. At the end the best candidates of all
runs are measured again in turn, since a best is also the luckiest of many single measurements.

A search's luck makes equal runs differ by half, so it takes dozens of seeds to see what late results cost. With `--modelled`, latencies come from a
model of the records that a run with `--keep` has left: that costs no measurements, and others may use the machine meanwhile.
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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from operator import itemgetter
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple, Protocol

import msgspec
from scipy.stats import t

from tests.benchmarks.engine.plan import WORKLOADS
from tests.tuning.engines.pooling import Machine, pool_start
from tests.tuning.engines.running import Engine, start
from tuning.engines.wire.options.meta_schedule import Options
from tuning.engines.wire.pools.messages import Probe, Probed, Ready
from tuning.engines.wire.protocol import Candidate, Finished, Measured, NetworkSpec, Pool, TasksExtracted, encode

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
    synthetic: bool = False
    """Latencies are made up."""
    look_ahead: float = Pool(slots=1).look_ahead
    """With more than one slot."""


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
        options=Options(
            trials_per_batch=BATCH, seed=plan.seed, algorithms="direct", cold_weights=False, transfer=False
        ),
        trials_budget=plan.trials,
        # One machine looks nowhere ahead, as a run without a pool.
        pool=Pool(slots=slots, look_ahead=plan.look_ahead if slots > 1 else 1.0, synthetic=plan.synthetic),
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


class Mean(NamedTuple):
    """The geometric mean of ratios, and the bounds between which it is with 95 % confidence; None for a single one."""

    ratio: float
    bounds: tuple[float, float] | None

    def __str__(self) -> str:
        between = " ({:.3f} to {:.3f})".format(*self.bounds) if self.bounds else ""
        return f"{self.ratio:.3f}{between}"


def geometric_mean(comparisons: Sequence[Comparison], slots: int) -> Mean:
    """Of the ratios, whose logarithms are taken for normally distributed."""
    logs = [math.log(each.ratio(slots)) for each in comparisons]
    middle = fmean(logs)
    if len(logs) < 2:
        return Mean(math.exp(middle), None)
    within = float(t.ppf(0.975, len(logs) - 1)) * stdev(logs) / math.sqrt(len(logs))
    return Mean(math.exp(middle), (math.exp(middle - within), math.exp(middle + within)))


def main() -> None:
    """Compare, seed by seed, and print the figures."""
    given = _arguments()
    # Engines must end with this program, and none may be left stopped.
    signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    found: list[Comparison] = []
    with _folder(given.keep) as folder, _latencies(given, folder) as known:
        for seed in given.seeds:
            for workload in given.workloads:
                plan = Plan(workload, seed, given.trials, bool(given.modelled), given.look_ahead)
                found.append(compare(plan, given.slots, known[workload], folder))
                sys.stdout.write(f"{msgspec.json.encode(found[-1]).decode()}\n")
                sys.stdout.flush()
    sys.stdout.write(told(found))


def told(found: Sequence[Comparison]) -> str:
    """A line for each workload and number of slots."""
    lines = ""
    for workload in sorted({one.plan.workload for one in found}):
        ours = [one for one in found if one.plan.workload == workload]
        for slots in (each.slots for each in ours[0].outcomes[1:]):
            mean = geometric_mean(ours, slots)
            lines += f"{workload}, {slots} slots: {mean} times the latency with one, {len(ours)} seeds\n"
    return lines


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.fleet.quality", description=__doc__)
    parser.add_argument("--workloads", nargs="+", choices=["matmul", "conv2d"], default=["matmul", "conv2d"])
    parser.add_argument("--slots", type=int, nargs="+", default=[8], help="candidates that machines hold at once")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--look-ahead", type=float, default=Pool(slots=1).look_ahead, help="with more than one slot")
    records = parser.add_mutually_exclusive_group()
    records.add_argument("--keep", type=Path, help="new folder for what the runs write")
    records.add_argument("--modelled", type=Path, help="folder of an earlier call's --keep, instead of measurements")
    return parser.parse_args()


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep:
        keep.mkdir(parents=True)
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="quality-") as name:
        yield Path(name)


@contextmanager
def _latencies(given: argparse.Namespace, folder: Path) -> Iterator[Mapping[str, Latencies]]:
    """By workload."""
    if given.modelled:
        from .modelled import Modelled  # It loads TVM.

        yield {each: Modelled(sorted(given.modelled.glob(f"{each}-*/work"))) for each in given.workloads}
        return
    with measuring(folder) as table:
        yield dict.fromkeys(given.workloads, table)


if __name__ == "__main__":
    main()
