"""Compares a tuned network with ONNX Runtime: `python -m tests.benchmarks.engine.onnxruntime_process` answers `Compare` with `Compared`.

Both run the same network with the same weights and inputs on the same cores, in turn, in one process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import msgspec

from tuning.engines.oneshot import serving
from tuning.engines.oneshot.comparing import reference
from tuning.engines.targets import intrinsics
from tuning.engines.wire.protocol import NetworkSpec
from tuning.engines.wire.question import Question

from .threads import use_cores

ROUNDS = 7
ROUND_S = 1.0


class Compare(Question, frozen=True, kw_only=True):
    network: NetworkSpec
    target: dict[str, Any]
    records: list[str]
    """As in `TrialMeasured.record`, the best of each task."""
    in_parts: bool
    """As in `Build`."""


class Compared(msgspec.Struct, tag="compared", frozen=True):
    """Seconds of one inference in each round."""

    tuned_s: list[float]
    onnxruntime_s: list[float]
    max_abs_error: float
    """The largest difference between the two outputs."""
    largest: float
    """The largest absolute value of ONNX Runtime's output."""
    scheduled: int
    """Functions that a record was applied to."""
    functions: int

    @property
    def ratio(self) -> float:
        """The tuned network's time in multiples of ONNX Runtime's."""
        return median(self.tuned_s) / median(self.onnxruntime_s)


def main() -> None:
    serving.serve(Compare, _answer, "They can't be compared")


def _answer(question: Compare, pipe: serving.Pipe) -> None:
    """Measure both with as many threads as the target has cores."""
    threads = use_cores(question.target)
    intrinsics.load(str(question.target["kind"]))
    pipe.send(_compared(question, threads))


def _compared(question: Compare, threads: int) -> Compared:
    import numpy as np

    from tuning.engines.networks import shapes
    from tuning.engines.wire.catalog import options_of

    shape_of = shapes(question.network.name, options_of(question.network.name, dict(question.network.options)))
    random = np.random.default_rng(0)
    inputs = {name: random.standard_normal(shape, dtype=np.float32) for name, shape in shape_of.items()}
    tuned, scheduled, functions = _tuned(question, inputs)
    run_reference = reference.onnxruntime(question.network, threads)(inputs)
    (expected,), given = run_reference(), tuned().numpy()
    rounds = [(_seconds(tuned), _seconds(run_reference)) for _ in range(ROUNDS)]
    return Compared(
        [ours for ours, _ in rounds],
        [theirs for _, theirs in rounds],
        float(np.abs(expected - given).max()),
        float(np.abs(expected).max()),
        scheduled,
        functions,
    )


def _tuned(question: Compare, inputs: dict[str, Any]) -> tuple[Callable[[], Any], int, int]:
    """The network with its records applied, the number of functions that got one, and that of all functions."""
    import tvm
    from tvm import relax
    from tvm.target import Target

    from tuning.engines import networks
    from tuning.engines.oneshot.applying import applied, with_algorithms

    target = Target(question.target)
    network = networks.build(question.network).mod
    computed = with_algorithms(network, target, question.records, in_parts=question.in_parts)
    found = applied(computed, target, question.records)
    machine = relax.VirtualMachine(relax.build(found.mod, target), tvm.cpu(0))
    arguments = [tvm.runtime.tensor(array) for array in inputs.values()]
    return lambda: machine["main"](*arguments), len(found.tuned), len(found.tuned) + len(found.untuned)


def _seconds(run: Callable[[], Any]) -> float:
    """The mean time of one execution, over as many as fit in a round."""
    count, began = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - began) < ROUND_S:
        run()
        count += 1
    return elapsed / count


if __name__ == "__main__":
    main()
