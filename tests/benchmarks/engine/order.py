"""What a small first pass costs or gains: the same network and seeds, with different numbers of first trials per task.

`python -m tests.benchmarks.engine.order WORK_DIR … [--first 0 16] [--trials 320] [--seeds 1 2 3] [--batch 16]`, where 0 is the default. The search
is the real one, but nothing is built or measured: latencies are what TVM's cost model, trained with the records of these runs' work directories,
predicts for the candidates. So a candidate's latency is a function of its code, whatever else the machine does, and orders of work differ by nothing but
the order. What a search with the same kind of model can learn of it, it learns faster than from measurements.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Protocol

import msgspec

from tests.tuning.engines.running import Engine, start
from tuning.engines.wire.options.meta_schedule import Options
from tuning.engines.wire.protocol import Candidate, Finished, Measured, NetworkSpec, Phase, Pool, TasksExtracted, encode

from .timeline import Estimate, Timeline, estimates
from .timeline import Measured as Trial


class Order(msgspec.Struct, frozen=True):
    """One tuning."""

    seed: int
    first_trials: int
    """0: the default."""
    estimates: list[Estimate]
    """With numbers of trials in place of seconds."""
    first_s: float
    """Seconds until every task had a latency, without those of building and measuring."""

    @property
    def first(self) -> int:
        """The trial with which every task had a latency."""
        return int(self.estimates[0][0])

    def estimate_s(self, trials: int) -> float | None:
        """The estimate after so many trials; None if there was none yet."""
        return next((found for number, found in reversed(self.estimates) if number <= trials), None)


class Model(Protocol):
    """Knows what becomes of candidates."""

    def answers(self, candidates: Sequence[Candidate], workloads: Sequence[str]) -> list[Measured]:
        """One for each candidate; `workloads` are structural hashes by task."""


def tune(network: NetworkSpec, options: Options, trials: int, model: Model) -> Order:
    """Tune with one machine's order of work: a batch is known before the next is searched."""
    with tempfile.TemporaryDirectory(prefix="order-") as folder:
        given = start(
            Path(folder, "work"),
            network=network,
            options=options,
            trials_budget=trials,
            pool=Pool(slots=1, look_ahead=1.0, synthetic=True),
        )
        waiting: list[Candidate] = []
        with Engine(given, Path(folder, "console")) as engine:
            tasks = engine.until(TasksExtracted).tasks
            began, answering_s, known_s = time.monotonic(), 0.0, []
            for event in engine:
                if isinstance(event, Candidate):
                    waiting.append(event)
                if isinstance(event, Phase) and event.name == "measuring":
                    asked = time.monotonic()
                    for answer in model.answers(waiting, [task.workload_hash for task in tasks]):
                        engine.write(encode(answer))
                    answering_s += time.monotonic() - asked
                    known_s += [time.monotonic() - began - answering_s] * len(waiting)
                    waiting.clear()
            assert engine.seen[-1] == Finished("budget"), engine.seen[-1]
    trials_of = [Trial(number, one.task, one.latency_s, short=False) for number, one in enumerate(engine.trials, 1)]
    timeline = Timeline([task.weight or 0 for task in tasks], trials_of, wall_s=known_s[-1], first_s=known_s[0])
    found = estimates(timeline.improvements(), timeline.weights)
    assert found, "a task had no valid trial"
    return Order(options.seed or 0, options.first_trials or 0, found, known_s[int(found[0][0]) - 1])


def told(orders: Sequence[Order], first: Sequence[int], trials: int) -> str:
    """Each order's first estimate, and its estimates divided by those of the last order with the same seed."""
    lines = []
    by_seed = {(one.seed, one.first_trials): one for one in orders}
    seeds = sorted({one.seed for one in orders})
    for each in first:
        ours = [by_seed[seed, each] for seed in seeds]
        numbers, waits = ([str(round(getattr(one, name))) for one in ours] for name in ("first", "first_s"))
        lines.append(
            f"first_trials {each or 'default'}: estimate from trial {', '.join(numbers)}, after {', '.join(waits)} s"
        )
        for at in (trials // 2, trials * 3 // 4, trials):
            pairs = [(one.estimate_s(at), by_seed[one.seed, first[-1]].estimate_s(at)) for one in ours]
            ratios = [mine / theirs for mine, theirs in pairs if mine and theirs]
            if ratios:
                lines.append(
                    f"  after {at}: {geometric_mean(ratios):.3f} of {first[-1]}'s ({min(ratios):.3f} to {max(ratios):.3f}), {len(ratios)} seeds"
                )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Tune with each order, seed by seed, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.engine.order", description=__doc__)
    parser.add_argument("records", nargs="+", type=Path, help="work directories of runs of the network")
    parser.add_argument("--network", default="resnet-18")
    parser.add_argument("--first", nargs="+", type=int, default=[0, 16], help="first trials per task; 0 is the default")
    parser.add_argument("--trials", type=int, default=320)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    given = parser.parse_args()
    from .modelled import NetworkModel  # It loads TVM.

    model, orders = NetworkModel(given.records), []
    for seed in given.seeds:
        for first in given.first:
            options = Options(
                trials_per_batch=given.batch,
                seed=seed,
                first_trials=first or None,
                algorithms="direct",
                cold_weights=False,
                schedule_rules="tvm",
                transfer=False,
            )
            orders.append(tune(NetworkSpec(given.network), options, given.trials, model))
            sys.stdout.write(f"{msgspec.json.encode(orders[-1]).decode()}\n")
            sys.stdout.flush()
    sys.stdout.write(told(orders, given.first, given.trials))


if __name__ == "__main__":
    main()
