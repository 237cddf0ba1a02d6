"""A tuned network beside ONNX Runtime: `python -m tests.benchmarks.engine.onnxruntime_process` reads a `Beside` and prints an `Outcome`.

Both run the same network with the same weights and inputs on the same cores, in turn, in one process.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import msgspec

from tuning.engines.oneshot import reference
from tuning.engines.targets import intrinsics
from tuning.engines.wire.protocol import NetworkSpec

ROUNDS = 7
ROUND_S = 1.0


class Beside(msgspec.Struct, frozen=True):
    """A network and what tuning gave for it."""

    network: NetworkSpec
    target: dict[str, Any]
    records: list[str]
    """As in `TrialMeasured.record`, the best of each task."""


class Outcome(msgspec.Struct, frozen=True):
    """Seconds of one inference in each round."""

    tuned_s: list[float]
    onnxruntime_s: list[float]
    max_abs_error: float
    """The largest difference of the two outputs."""
    largest: float
    """The largest absolute value of ONNX Runtime's output."""
    scheduled: int
    """Functions that a record was applied to."""
    functions: int

    @property
    def ratio(self) -> float:
        """How many times ONNX Runtime's time the tuned network takes."""
        return median(self.tuned_s) / median(self.onnxruntime_s)


def main() -> None:
    """Measure both, with as many threads as the target has cores."""
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=Beside)
    threads = int(asked.target.get("num-cores") or os.cpu_count() or 1)
    os.environ["TVM_NUM_THREADS"] = str(threads)
    intrinsics.load(str(asked.target["kind"]))
    outcome = _compared(asked, threads)
    sys.stdout.flush()
    sys.stdout.buffer.write(msgspec.json.encode(outcome) + b"\n")


def _compared(asked: Beside, threads: int) -> Outcome:
    import numpy as np

    from tuning.engines.networks import shapes
    from tuning.engines.wire.catalog import options_of

    shape_of = shapes(asked.network.name, options_of(asked.network.name, dict(asked.network.options)))
    random = np.random.default_rng(0)
    inputs = {name: random.standard_normal(shape, dtype=np.float32) for name, shape in shape_of.items()}
    tuned, scheduled, functions = _tuned(asked, inputs)
    run_reference = reference.onnxruntime(asked.network, inputs, threads)
    expected, given = run_reference(), tuned().numpy()
    rounds = [(_seconds(tuned), _seconds(run_reference)) for _ in range(ROUNDS)]
    return Outcome(
        [ours for ours, _ in rounds],
        [theirs for _, theirs in rounds],
        float(np.abs(expected - given).max()),
        float(np.abs(expected).max()),
        scheduled,
        functions,
    )


def _tuned(asked: Beside, inputs: dict[str, Any]) -> tuple[Callable[[], Any], int, int]:
    """The network with its records applied, and to how many of its functions they were."""
    import tvm
    from tvm import relax
    from tvm.target import Target

    from tuning.engines import networks
    from tuning.engines.networks import extraction
    from tuning.engines.oneshot.applying import applied

    target = Target(asked.target)
    found = applied(extraction.legalized(networks.build(asked.network).mod, target), target, asked.records)
    machine = relax.VirtualMachine(relax.build(found.mod, target), tvm.cpu(0))
    arguments = [tvm.runtime.tensor(array) for array in inputs.values()]
    return lambda: machine["main"](*arguments), len(found.tuned), len(found.tuned) + len(found.untuned)


def _seconds(run: Callable[[], Any]) -> float:
    """Of one execution, the mean of all that a round has time for."""
    count, began = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - began) < ROUND_S:
        run()
        count += 1
    return elapsed / count


if __name__ == "__main__":
    main()
