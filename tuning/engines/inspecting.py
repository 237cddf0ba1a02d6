"""What a network is made of and which tasks it has, found out under limits and before anything is tuned.

`python -m tuning.engines.inspecting` reads one JSON `Question` and writes JSON lines: any number of `Step`, then an
`Inspected` or a `Refusal`. It limits itself before it loads TVM or looks at a file; who asked limits its time.
"""

from __future__ import annotations

import os
import resource
import sys
import traceback
from collections import Counter
from typing import Annotated, Any, Union

import msgspec
from msgspec import Meta

from . import versions
from .errors import Refused
from .lifeline import die_with
from .protocol import NetworkSpec, TaskInfo, TensorInfo


class Question(msgspec.Struct, frozen=True):
    """Which network to look at, and for which target."""

    network: NetworkSpec
    target: dict[str, Any] | None
    """As resolved; None for one that serves to count operations."""
    memory_mb: Annotated[int, Meta(ge=1)]
    """Address space, in MiB."""
    cpu_s: Annotated[int, Meta(ge=1)]
    """Seconds of processor time."""


class Step(msgspec.Struct, tag="step", frozen=True):
    """What goes on from now on, in words."""

    text: str


class Inspected(msgspec.Struct, tag="inspected", frozen=True):
    """A network that can be tuned."""

    inputs: list[TensorInfo]
    parameters: int
    operators: dict[str, int]
    """How often each occurs: ONNX's names for an ONNX file, Relax's else."""
    tasks: list[TaskInfo]


class Refusal(msgspec.Struct, tag="refused", frozen=True):
    """Why it can't be tuned; `dims` names the dimensions that the file leaves open, when it is about these."""

    error: str
    dims: list[str] | None = None


Answer = Union[Step, Inspected, Refusal]


def decode(line: bytes) -> Step | Inspected | Refusal:
    """Raises `msgspec.MsgspecError` when the line is no answer."""
    answer: Step | Inspected | Refusal = _answers.decode(line)
    return answer


_answers = msgspec.json.Decoder(Answer)


class _Pipe:
    """Standard output for answers only: TVM and its importers print there too, which goes to stderr from now on."""

    def __init__(self) -> None:
        self._fd = os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def send(self, answer: Answer) -> None:
        """One line, whole."""
        line = memoryview(msgspec.json.encode(answer) + b"\n")
        while line:
            line = line[os.write(self._fd, line) :]

    def step(self, text: str) -> None:
        """Say what goes on."""
        self.send(Step(text))


def limit(memory_mb: int, cpu_s: int) -> None:
    """Of this process from now on; no core is dumped when it is ended for it."""
    space = memory_mb << 20
    resource.setrlimit(resource.RLIMIT_AS, (space, space))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def inspect(question: Question, pipe: _Pipe) -> Inspected:
    """Build the network and extract its tasks. Raises `Refused`."""
    pipe.step("Loading TVM")
    from tvm.target import Target

    from . import extraction, networks

    pipe.step("Reading the model" if question.network.file else "Making the network")
    network = networks.build(question.network)
    pipe.step("Legalising and fusing")
    target = Target(question.target or {"kind": "llvm", "num-cores": 1})
    extracted = extraction.extract(extraction.legalized(network.mod, target), target)
    if not extracted:
        raise Refused("The network has no function to tune: everything in it is known without its inputs.")
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


def _answered(question: Question, pipe: _Pipe) -> Inspected | Refusal:
    if trouble := versions.problem():
        return Refusal(trouble)
    try:
        return inspect(question, pipe)
    except Exception as error:  # noqa: BLE001  a page must show something better than a traceback
        return _refusal(error, question.memory_mb)


def _refusal(error: Exception, memory_mb: int) -> Refusal:
    if isinstance(error, Refused):
        return Refusal(str(error), error.dims)
    traceback.print_exc()
    if isinstance(error, MemoryError) or "bad_alloc" in str(error):  # the latter from TVM's own passes
        return Refusal(f"It needs more than the {memory_mb:,} MiB of memory that it may take here.")
    reason = (str(error).strip().splitlines() or [""])[-1]
    return Refusal(f"TVM can't prepare it: {type(error).__name__}: {reason[:500]}")


def main() -> None:
    """Answer the one question on stdin."""
    die_with(os.getppid())
    pipe = _Pipe()
    question = msgspec.json.decode(sys.stdin.buffer.read(), type=Question)
    limit(question.memory_mb, question.cpu_s)
    pipe.send(_answered(question, pipe))


if __name__ == "__main__":
    main()
