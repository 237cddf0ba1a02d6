"""Compares a tuned library with the untuned one and benchmarks both: `python -m tuning.engines.oneshot.proving` answers `Prove`.

Both are loaded from their files, as users load the library; on a remote device, through its tracker.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from tuning.engines.wire.compiling import LIBRARY, MANIFEST, UNTUNED, Prove, Proven, Side, Tolerance
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.protocol import TensorInfo

from . import serving
from .phases import tell

LAP_S = 0.1
"""How long each side runs in a round, about."""
REST_S = 0.1
"""Pause between two sides: ONNX Runtime's threads busy-wait for 35 ms more, and whatever shares a core with them takes twice as long."""
LEAST_ROUNDS, MOST_ROUNDS = 3, 50
TOLERANCES = {"float64": 1e-9, "float32": 1e-4, "float16": 5e-2, "bfloat16": 1e-1}
"""The largest difference, relative to the output's largest absolute value, that rounding explains; integers must be equal.

Schedules add in different orders. A sum of n products is then off by about √n units in the last place, where n is in the thousands in
convolutions, and layers accumulate. That makes 1e-5 for float32 (1e-6 was observed in ResNet-18), and 1e-2 for float16, which adds in
float16 too. A schedule that computes something else is off by as much as the output itself.
"""
Measure = Callable[[int], float]
"""Returns the mean seconds of one inference over the given number of inferences."""


def prove(question: Prove, pipe: serving.Pipe) -> Proven:
    """Raises `Refused`, and whatever TVM does."""
    tell(pipe, "loading")
    threads = int(question.target.get("num-cores") or os.cpu_count() or 1)
    # Otherwise TVM uses half of the logical cores of an x86 CPU.
    os.environ["TVM_NUM_THREADS"] = str(threads)
    folder = Path(question.folder)
    inputs = msgspec.convert(msgspec.json.decode((folder / MANIFEST).read_bytes())["inputs"], list[TensorInfo])
    with _place(question) as place:
        given = _random(inputs, question.seed)
        tuned, untuned = (place.load(folder / name, given) for name in (LIBRARY, UNTUNED))
        tell(pipe, "verifying")
        verdict = compared(tuned.outputs(), untuned.outputs())
        sides: dict[Side, Measure] = {"tuned": tuned.measure, "untuned": untuned.measure}
        onnx, version, without = _onnxruntime(question, given, threads)
        if onnx is not None:
            sides["onnxruntime"] = onnx
        tell(pipe, "benchmarking", 0.0)
        rounds = benchmarked(sides, question.benchmark_s, lambda share: tell(pipe, "benchmarking", share))
    return Proven(*verdict, rounds, version, without)


def compared(tuned: list[Any], untuned: list[Any]) -> tuple[bool, float | None, float | None, Tolerance]:
    """Whether all outputs agree, with the errors and tolerance of the one that differs most for its type.

    The errors are None if one output is finite where the other isn't.
    """
    found = [_difference(one, other) for one, other in zip(tuned, untuned, strict=True)]
    return max(found, key=_excess)


def _excess(found: tuple[bool, float | None, float | None, Tolerance]) -> tuple[bool, float]:
    right, _, relative, tolerance = found
    return not right, float("inf") if relative is None else relative / (tolerance.relative or 1.0)


def _difference(tuned: Any, untuned: Any) -> tuple[bool, float | None, float | None, Tolerance]:
    import numpy as np

    tolerance = Tolerance(str(untuned.dtype), TOLERANCES.get(str(untuned.dtype), 0.0))
    one, other = (np.asarray(array, dtype="float64") for array in (tuned, untuned))
    finite = np.isfinite(other)
    if one.shape != other.shape or not np.array_equal(one[~finite], other[~finite], equal_nan=True):
        return False, None, None, tolerance
    if not np.isfinite(one[finite]).all():
        return False, None, None, tolerance
    largest = float(np.abs(other[finite]).max(initial=0.0))
    error = float(np.abs(one[finite] - other[finite]).max(initial=0.0))
    relative = error / largest if largest else error
    return relative <= tolerance.relative, error, relative, tolerance


def benchmarked(
    sides: dict[Side, Measure], seconds: float, on_progress: Callable[[float], None]
) -> dict[Side, list[float]]:
    """Seconds of one inference of each side, in rounds: all sides in turn, in reverse order in every second round."""
    counts = {side: max(1, round(LAP_S / max(measure(1), 1e-7))) for side, measure in sides.items()}
    rounds: dict[Side, list[float]] = {side: [] for side in sides}
    began = time.monotonic()
    for nth in range(MOST_ROUNDS):
        spent = time.monotonic() - began
        if nth >= LEAST_ROUNDS and spent * (nth + 1) / nth > seconds:
            break
        on_progress(min(1.0, max(spent / seconds, nth / MOST_ROUNDS)))
        for side in list(sides) if nth % 2 == 0 else reversed(list(sides)):
            time.sleep(REST_S)
            rounds[side].append(sides[side](counts[side]))
    return rounds


class _Loaded:
    """A library on a device, with its inputs."""

    def __init__(self, library: Any, device: Any, given: dict[str, Any]) -> None:
        import tvm
        from tvm import relax

        self._device = device
        self._machine = relax.VirtualMachine(library, device)
        self._arguments = [tvm.runtime.tensor(array, device) for array in given.values()]

    def outputs(self) -> list[Any]:
        """The outputs of one inference."""
        return [leaf.numpy() for leaf in _leaves(self._machine["main"](*self._arguments))]

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


def _random(inputs: list[TensorInfo], seed: int) -> dict[str, Any]:
    """Normally distributed floats; integers are 0 or 1, since they may be indices or counts."""
    import numpy as np

    random = np.random.default_rng(seed)

    def values(info: TensorInfo) -> Any:
        if "float" in info.dtype:
            return random.standard_normal(info.shape, dtype="float32").astype(_numpy_type(info.dtype))
        return random.integers(0, 2, info.shape).astype(info.dtype)

    return {info.name: values(info) for info in inputs}


def _numpy_type(dtype: str) -> Any:
    if dtype != "bfloat16":
        return dtype
    import ml_dtypes

    return ml_dtypes.bfloat16


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
