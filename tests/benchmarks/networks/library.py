"""What is asked of a process that measures a tuned network's library, and how that loads it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from tuning.engines.proof.outputs import drawn
from tuning.engines.wire.protocol import NetworkSpec, TensorInfo
from tuning.engines.wire.question import Question, Reach

if TYPE_CHECKING:
    from tuning.models import Compilation, Run

LAP_S = 0.2
"""How long a library is measured in a round, about."""


class OfLibrary(Question, frozen=True, kw_only=True):
    network: NetworkSpec
    target: dict[str, Any]
    library: str
    inputs: list[TensorInfo]

    def reach(self) -> Reach:
        return Reach((self.library, *self.network.paths()))


def about(run: Run, compilation: Compilation) -> dict[str, Any]:
    """The fields of `OfLibrary`."""
    return {
        "network": run.tuned_network.spec(),
        "target": run.target,
        "library": str(compilation.library),
        "inputs": msgspec.convert(compilation.inputs, list[TensorInfo]),
    }


def given(inputs: Iterable[TensorInfo]) -> dict[str, Any]:
    """Arrays to measure with, the same ones each time."""
    return drawn(((one.name, one.shape, one.dtype) for one in inputs), seed=1)


def loaded(library: str, inputs: Iterable[TensorInfo]) -> tuple[Any, list[Any]]:
    """A virtual machine with the library, and arguments for its function `main`."""
    import tvm
    from tvm import relax

    machine = relax.VirtualMachine(tvm.runtime.load_module(library), tvm.cpu())
    return machine, [tvm.runtime.tensor(array) for array in given(inputs).values()]


def seconds_of(library: str, inputs: Iterable[TensorInfo]) -> Callable[[], float]:
    """A function that measures one inference, in seconds."""
    import tvm

    machine, arguments = loaded(library, inputs)

    def seconds(number: int) -> float:
        return float(machine.time_evaluator("main", tvm.cpu(), number=number, repeat=1)(*arguments).mean)

    number = max(1, round(LAP_S / seconds(1)))
    return lambda: seconds(number)
