"""A fake builder and prover: `python -m tests.fake_compiler`, started like the real ones.

TVM_FAKE_COMPILER says how it misbehaves instead of answering: `kill`, `hang`, `refuse`, `full` or `memory`. With `wrong`
it builds a library that computes something else. With `replace` it puts something else in the place of the file
TVM_FAKE_NAME, as TVM_FAKE_HOW says, which leads to TVM_FAKE_CANARY (`tests.replacing`).
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import msgspec

from tests.replacing import replace
from tuning.engines.oneshot import serving
from tuning.engines.oneshot.serving import tell
from tuning.engines.wire import question as wire
from tuning.engines.wire.compiling import (
    LIBRARY,
    MANIFEST,
    UNTUNED,
    Accuracy,
    Build,
    Built,
    BuiltBatch,
    Choice,
    Chosen,
    Part,
    Profile,
    Prove,
    Proven,
    ProvenBatch,
    Tolerance,
    Tried,
    Used,
)
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.lifeline import die_with
from tuning.engines.wire.protocol import TensorInfo


def main() -> None:
    die_with(os.getppid())
    pipe = serving.Pipe()
    asked = msgspec.json.decode(sys.stdin.buffer.read())
    tell(pipe, "building" if "records" in asked else "benchmarking", 0.5)
    if "records" in asked:
        build(msgspec.convert(asked, Build), pipe)
    else:
        prove(msgspec.convert(asked, Prove, strict=False), pipe)


def build(question: Build, pipe: serving.Pipe) -> None:
    folder = Path(question.folder)
    (folder / LIBRARY).write_bytes(b"half")
    misbehave(pipe)
    (folder / LIBRARY).write_bytes(b"wrong" if os.environ.get("TVM_FAKE_COMPILER") == "wrong" else b"whole")
    (folder / UNTUNED).write_bytes(b"untuned")
    (folder / MANIFEST).write_bytes(msgspec.json.encode({**question.about, "precision": question.rewrites.precision}))
    if os.environ.get("TVM_FAKE_COMPILER") == "replace":
        (folder / "beside.so").write_bytes(b"nobody asked for it")
        replace(folder / os.environ["TVM_FAKE_NAME"], os.environ["TVM_FAKE_HOW"], Path(os.environ["TVM_FAKE_CANARY"]))
    used = [Used(f"function{nth}", one.run, one.trial, one.latency_s) for nth, one in enumerate(question.records)]
    tensors = [TensorInfo("x", [1, 784], "float32")]
    versions = {"apache-tvm": "0.27.0.post1"}
    graphs = 4 if question.cuda_graphs else None
    of_batches = batches(question, used)
    pipe.send(
        Built(
            versions,
            used,
            ["slow"],
            tensors,
            tensors,
            5,
            "ab" * 32,
            chosen(question),
            cuda_graphs=graphs,
            batches=of_batches,
        )
    )


def batches(question: Build, own: list[Used]) -> list[BuiltBatch]:
    found = {} if question.batch is None else {question.batch: own}
    for other in question.others:
        found[other.batch] = [Used("function0", one.run, one.trial, one.latency_s) for one in other.records]
    tensors = {batch: [TensorInfo("x", [batch, 784], "float32")] for batch in found}
    return [BuiltBatch(batch, found[batch], [], tensors[batch], tensors[batch]) for batch in sorted(found)]


def chosen(question: Build) -> Chosen | None:
    """All records are as fast inside as they are alone, and so the best ones are kept."""
    if question.choose is None:
        return None
    tasks = [[best, *more] for best, more in zip(question.records, question.choose.alternatives, strict=True)]
    return Chosen(
        [
            Choice(f"function{nth}", 2, [Tried(one.run, one.trial, one.latency_s, one.latency_s) for one in few], 0)
            for nth, few in enumerate(tasks)
        ],
        {},
        kept=False,
    )


def prove(question: Prove, pipe: serving.Pipe) -> None:
    misbehave(pipe)
    right = (Path(question.folder) / LIBRARY).read_bytes() == b"whole"
    error = 1e-6 if right else 3.0
    rounds = {"tuned": [1e-3, 2e-3, 4e-3], "untuned": [10e-3, 20e-3, 40e-3]}
    profile = Profile([Part("function0", 2, 0.3e-3), Part("slow", 1, 0.4e-3)], 2e-5, 12)
    without = "ONNX Runtime isn't installed."
    tolerance = Tolerance("float32", 1e-4) if question.precision == "network" else Tolerance(question.precision, 1e-1)
    numbers = sorted([*question.others, question.batch]) if question.batch else []
    of_batch = [ProvenBatch(batch, error, error, scaled(rounds, batch), without) for batch in numbers]  # type: ignore[arg-type]
    accuracy = Accuracy(8, 0.02, 0.07, 8, 7) if question.float_model else None
    pipe.send(Proven(right, error, error, tolerance, rounds, None, without, profile, of_batch, accuracy))  # type: ignore[arg-type]


def scaled(rounds: dict[str, list[float]], batch: int) -> dict[str, list[float]]:
    return {side: [seconds * batch for seconds in found] for side, found in rounds.items()}


def misbehave(pipe: serving.Pipe) -> None:
    how = os.environ.get("TVM_FAKE_COMPILER", "")
    if how == "kill":
        os.write(2, b"LLVM ERROR: out of registers\n")
        os.kill(os.getpid(), signal.SIGSEGV)
    elif how == "hang":
        os.write(2, b"hanging\n")
        time.sleep(600)
    elif how == "memory":
        os.write(2, b"std::bad_alloc\n")
        os.abort()
    elif how == "refuse":
        pipe.send(wire.Refusal(str(Refused("This machine can't build for the target."))))
        sys.exit()
    elif how == "full":
        os.write(2, b"LLVM ERROR: IO failure on output stream: No space left on device\n")
        os.abort()


if __name__ == "__main__":
    main()
