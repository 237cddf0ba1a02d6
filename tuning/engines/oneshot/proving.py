"""Compares a tuned library with the untuned one and benchmarks both: `python -m tuning.engines.oneshot.proving` answers `Prove`.

Both are loaded from their files, as users load the library; on a remote device, through its tracker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from tuning.engines.proof import threads
from tuning.engines.proof.outputs import STEPS, excess
from tuning.engines.proof.rounds import Measure, benchmarked
from tuning.engines.wire.compiling import (
    LIBRARY,
    MANIFEST,
    UNTUNED,
    Accuracy,
    Profile,
    Prove,
    Proven,
    ProvenBatch,
    Quantized,
    Side,
    Tolerance,
    entry,
)
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.protocol import NetworkSpec

from . import serving
from .comparing import accuracy, reference
from .comparing.judging import Given, Judge, cases_of
from .profiling import Timed, profiled
from .serving import tell


def prove(question: Prove, pipe: serving.Pipe) -> Proven:
    """Raises `Refused`, and whatever TVM does."""
    tell(pipe, "loading")
    threads.run_network_on(threads.cores_of(question.target))
    folder = Path(question.folder)
    manifest = msgspec.json.decode((folder / MANIFEST).read_bytes())
    with _place(question) as place:
        tuned, untuned = (place.load(folder / name) for name in (LIBRARY, UNTUNED))
        judge = Judge(tuned, untuned, question, msgspec.convert(manifest.get("quantized"), Quantized | None))
        tell(pipe, "verifying")
        cases = cases_of(question, manifest)
        if manifest.get("cuda_graphs"):
            _capture(tuned, [given for _, given in cases.values()])
        verdicts = judge.verdicts({batch: given for batch, (_, given) in cases.items()})
        found = _accuracy(tuned, question, cases[question.batch][1])
        tell(pipe, "benchmarking", 0.0)
        measured = {}
        for nth, (batch, (network, given)) in enumerate(cases.items()):
            told = partial(_told, pipe, nth, len(cases))
            measured[batch] = _measured(tuned.on(given), untuned.on(given), network, question, told)
        is_here = question.remote is None and question.target["kind"] == "llvm"
        given = cases[question.batch][1]
        profile = tuned.on(given).profile(entry(question.batch)) if is_here else None
    worst = max(verdicts, key=excess)
    own = measured[question.batch]
    batches = [
        ProvenBatch(batch, verdict.absolute, verdict.relative, measured[batch].rounds, measured[batch].without)
        for batch, verdict in zip(cases, verdicts, strict=False)
        if batch is not None
    ]
    return Proven(
        all(verdict.right for verdict in verdicts),
        worst.absolute,
        worst.relative,
        Tolerance(worst.dtype, worst.tolerance, STEPS if judge.quantized else None),
        own.rounds,
        own.onnxruntime,
        own.without,
        profile,
        sorted(batches, key=lambda one: one.batch),
        found,
    )


def _capture(tuned: _Library, cases: list[Given]) -> None:
    """Have CUDA graphs captured, with other inputs than those that outputs are compared for: they are launched from the second inference on."""
    for given in cases:
        tuned.on({name: np.zeros_like(array) for name, array in given.items()}).outputs()


def _accuracy(tuned: _Library, question: Prove, like: Given) -> Accuracy | None:
    return accuracy.of(tuned, question.float_model, question, like) if question.float_model else None


def _told(pipe: serving.Pipe, nth: int, of: int, share: float) -> None:
    tell(pipe, "benchmarking", (nth + share) / of)


class _Measured(NamedTuple):
    rounds: dict[Side, list[float]]
    onnxruntime: str | None
    """Its version; or else, why it wasn't measured."""
    without: str | None


def _measured(
    tuned: _Inference,
    untuned: _Inference,
    network: NetworkSpec,
    question: Prove,
    on_progress: Callable[[float], None],
) -> _Measured:
    """One of the batches, which share the time for benchmarks."""
    sides: dict[Side, Measure] = {"tuned": tuned.measure, "untuned": untuned.measure}
    onnx, version, without = _onnxruntime(question, network, tuned.given)
    if onnx is not None:
        sides["onnxruntime"] = onnx
    if question.float_model and network == question.network:
        onnx, _, _ = _onnxruntime(question, question.float_model, tuned.given)
        if onnx is not None:
            sides["float_model"] = onnx
    seconds = question.benchmark_s / (1 + len(question.others))
    return _Measured(benchmarked(sides, seconds, on_progress), version, without)


class _Library:
    """A library on a device."""

    def __init__(self, module: Any, device: Any) -> None:
        from tvm import relax

        self.module = module
        self.device = device
        self.machine = relax.VirtualMachine(module, device)

    def on(self, given: Given) -> _Inference:
        return _Inference(self, given)


class _Inference:
    """A library with inputs on its device."""

    def __init__(self, library: _Library, given: Given) -> None:
        import tvm

        self.given = given
        self._library = library
        self._arguments = [tvm.runtime.tensor(array, library.device) for array in given.values()]

    def outputs(self) -> list[Any]:
        """The outputs of one inference."""
        return [leaf.numpy() for leaf in _leaves(self._library.machine["main"](*self._arguments))]

    def profile(self, entry: str) -> Profile:
        """Of this function, on this machine's CPU: a GPU computes after a call has returned, and a remote device can't be told to time calls."""
        return profiled(Timed(self._library.module, self._arguments, entry))

    def measure(self, number: int) -> float:
        evaluator = self._library.machine.time_evaluator("main", self._library.device, number=number, repeat=1)
        return float(evaluator(*self._arguments).results[0])


def _leaves(value: Any) -> list[Any]:
    return [value] if hasattr(value, "numpy") else [leaf for part in value for leaf in _leaves(part)]


class _Here:
    """This machine's device of the target's kind."""

    def __init__(self, kind: str) -> None:
        import tvm

        self._device = tvm.cpu() if kind == "llvm" else tvm.device(kind, 0)

    def load(self, path: Path) -> _Library:
        import tvm

        return _Library(tvm.runtime.load_module(str(path)), self._device)


class _There:
    """A remote device, which the libraries are uploaded to."""

    def __init__(self, session: Any, kind: str) -> None:
        self._session = session
        self._device = session.device("cpu" if kind == "llvm" else kind, 0)

    def load(self, path: Path) -> _Library:
        """`path` is on this machine."""
        self._session.upload(str(path), path.name)
        return _Library(self._session.load_module(path.name), self._device)


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


def _onnxruntime(question: Prove, network: NetworkSpec, given: Given) -> tuple[Measure | None, str | None, str | None]:
    """How to measure it, and its version; or why it isn't measured."""
    if question.remote is not None:
        return None, None, "The device is remote, while ONNX Runtime is on this machine."
    if question.target["kind"] != "llvm":
        return None, None, "ONNX Runtime is measured on CPUs only."
    try:
        run = reference.onnxruntime(network, threads.cores_of(question.target))(given)
        with reference.in_words():
            run()
    except reference.Unavailable as why:
        return None, None, str(why)

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
