"""`python -m tuning.engines.oneshot.inspecting` answers a `Question` about a network's inputs, operators and tasks with `Inspected`."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tuning.engines.wire.errors import Refused
from tuning.engines.wire.inspecting import Inspected, Question
from tuning.engines.wire.options.meta_schedule import Options
from tuning.engines.wire.protocol import TensorInfo
from tuning.engines.wire.target_fields import TargetRefused, checked

from . import serving

ANY = {"kind": "llvm", "num-cores": 1}
"""The target if none is asked for: inputs and operators are the same for each."""


def inspect(question: Question, pipe: serving.Pipe) -> Inspected:
    """Build the network and extract its tasks, as a run does by default. Raises `Refused`."""
    pipe.step("Loading TVM")
    from tvm.target import Target

    from tuning.engines import networks
    from tuning.engines.networks import extraction
    from tuning.engines.targets.dot_products import instruction_of

    pipe.step("Reading the model" if question.network.file else "Making the network")
    try:
        target = Target(checked(question.target or ANY))
    except TargetRefused as refused:
        raise Refused(str(refused)) from refused
    network = networks.build(question.network, instruction=instruction_of(target))
    pipe.step("Legalizing and fusing")
    as_tuned = networks.as_tuned(network, target, Options().rewrites)
    extracted = extraction.extract(extraction.legalized(as_tuned, target), target)
    if not extracted:
        raise Refused("The network has no function to tune: everything in it can be computed without its inputs.")
    tasks = []
    for index, task in enumerate(extracted):
        pipe.step(f"Describing task {index + 1} of {len(extracted)}")
        tasks.append(extraction.describe(index, task))
    return Inspected(_inputs(network.mod), network.parameters, network.operators or _operators(network.mod), tasks)


def _inputs(mod: Any) -> list[TensorInfo]:
    params = mod["main"].params
    return [TensorInfo(str(one.name), [int(n) for n in one.ty.shape], str(one.ty.dtype)) for one in params]


def _operators(mod: Any) -> dict[str, int]:
    from tvm import relax
    from tvm.ir import Op

    found: list[Any] = []
    relax.analysis.post_order_visit(mod["main"], found.append)
    calls = [one.op for one in found if isinstance(one, relax.Call) and isinstance(one.op, Op)]
    return dict(Counter(str(op.name).removeprefix("relax.") for op in calls))


def main() -> None:
    serving.serve(Question, lambda question, pipe: pipe.send(inspect(question, pipe)), "TVM can't prepare it")


if __name__ == "__main__":
    main()
