"""Compares a tuned library with the untuned one and benchmarks both: `python -m tuning.engines.oneshot.proving` answers `Prove`.

Both are loaded from their files, as users load the library; on a remote device, through its tracker.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from tuning.engines.proof.outputs import STEPS, compared, drawn
from tuning.engines.proof.rounds import Measure, benchmarked
from tuning.engines.wire.compiling import LIBRARY, MANIFEST, UNTUNED, Profile, Prove, Proven, Quantized, Side, Tolerance
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.protocol import TensorInfo

from . import serving
from .profiling import Timed, profiled
from .serving import tell


def prove(question: Prove, pipe: serving.Pipe) -> Proven:
    """Raises `Refused`, and whatever TVM does."""
    tell(pipe, "loading")
    threads = int(question.target.get("num-cores") or os.cpu_count() or 1)
    # Otherwise TVM uses half of the logical cores of an x86 CPU.
    os.environ["TVM_NUM_THREADS"] = str(threads)
    folder = Path(question.folder)
    manifest = msgspec.json.decode((folder / MANIFEST).read_bytes())
    inputs = msgspec.convert(manifest["inputs"], list[TensorInfo])
    quantized = msgspec.convert(manifest.get("quantized"), Quantized | None)
    with _place(question) as place:
        given = drawn(((one.name, one.shape, one.dtype) for one in inputs), question.seed)
        tuned, untuned = (place.load(folder / name, given) for name in (LIBRARY, UNTUNED))
        tell(pipe, "verifying")
        computed_in = None if question.precision == "network" else question.precision
        steps = quantized.steps if quantized else None
        verdict = compared(tuned.outputs(), untuned.outputs(), computed_in, steps)
        sides: dict[Side, Measure] = {"tuned": tuned.measure, "untuned": untuned.measure}
        onnx, version, without = _onnxruntime(question, given, threads)
        if onnx is not None:
            sides["onnxruntime"] = onnx
        tell(pipe, "benchmarking", 0.0)
        rounds = benchmarked(sides, question.benchmark_s, lambda share: tell(pipe, "benchmarking", share))
        is_here = question.remote is None and question.target["kind"] == "llvm"
        profile = tuned.profile() if is_here else None
    tolerance = Tolerance(verdict.dtype, verdict.tolerance, STEPS if quantized else None)
    return Proven(verdict.right, verdict.absolute, verdict.relative, tolerance, rounds, version, without, profile)


class _Loaded:
    """A library on a device, with its inputs."""

    def __init__(self, library: Any, device: Any, given: dict[str, Any]) -> None:
        import tvm
        from tvm import relax

        self._library = library
        self._device = device
        self._machine = relax.VirtualMachine(library, device)
        self._arguments = [tvm.runtime.tensor(array, device) for array in given.values()]

    def outputs(self) -> list[Any]:
        """The outputs of one inference."""
        return [leaf.numpy() for leaf in _leaves(self._machine["main"](*self._arguments))]

    def profile(self) -> Profile:
        """On this machine's CPU: a GPU computes after a call has returned, and a remote device can't be told to time calls."""
        return profiled(Timed(self._library, self._arguments))

    def measure(self, number: int) -> float:
        evaluator = self._machine.time_evaluator("main", self._device, number=number, repeat=1)
        return float(evaluator(*self._arguments).results[0])


def _leaves(value: Any) -> list[Any]:
    return [value] if hasattr(value, "numpy") else [leaf for part in value for leaf in _leaves(part)]


class _Here:
    """This machine's device of the target's kind."""

    def __init__(self, kind: str) -> None:
        import tvm

        self._device = tvm.cpu() if kind == "llvm" else tvm.device(kind, 0)

    def load(self, path: Path, given: dict[str, Any]) -> _Loaded:
        import tvm

        return _Loaded(tvm.runtime.load_module(str(path)), self._device, given)


class _There:
    """A remote device, which the libraries are uploaded to."""

    def __init__(self, session: Any, kind: str) -> None:
        self._session = session
        self._device = session.device("cpu" if kind == "llvm" else kind, 0)

    def load(self, path: Path, given: dict[str, Any]) -> _Loaded:
        """`path` is on this machine."""
        self._session.upload(str(path), path.name)
        return _Loaded(self._session.load_module(path.name), self._device, given)


@contextmanager
def _place(question: Prove) -> Iterator[_Here | _There]:
    kind = str(question.target["kind"])
    if question.remote is None:
        yield _Here(kind)
        return
    from tuning.engines.measuring import sessions

    session = sessions.connect(question.remote, question.cpu_s)
    try:
        yield _There(session, kind)
    finally:
        for name in (LIBRARY, UNTUNED):
            session.remove(name)


def _onnxruntime(question: Prove, given: dict[str, Any], threads: int) -> tuple[Measure | None, str | None, str | None]:
    """How to measure it, and its version; or why it isn't measured."""
    from . import reference

    if question.remote is not None:
        return None, None, "The device is remote, while ONNX Runtime is on this machine."
    if question.target["kind"] != "llvm":
        return None, None, "ONNX Runtime is measured on CPUs only."
    try:
        run = reference.onnxruntime(question.network, given, threads)
        run()
    except reference.Unavailable as why:
        return None, None, str(why)
    except Exception as error:  # noqa: BLE001  that says nothing about the library
        reason = str(error).strip().partition("\n")[0][:300]  # It puts its message first.
        return None, None, f"ONNX Runtime can't run it: {reason or 'no reason given'}"

    def measure(number: int) -> float:
        began = time.perf_counter()
        for _ in range(number):
            run()
        return (time.perf_counter() - began) / number

    return measure, reference.version(), None


def _answer(question: Prove, pipe: serving.Pipe) -> None:
    try:
        pipe.send(prove(question, pipe))
    except FileNotFoundError as error:
        raise Refused(f"A file of the library is missing: {error.filename}. Compile the run again.") from error


def main() -> None:
    serving.serve(Prove, _answer, "TVM can't run it")


if __name__ == "__main__":
    main()
