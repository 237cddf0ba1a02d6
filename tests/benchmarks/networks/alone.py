"""Measures single inferences in a process of its own: `python -m tests.benchmarks.networks.alone` answers `Alone` with `Took`.

A process decides only once where its threads run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from tests.benchmarks.engine.threads import use_cores
from tuning.engines.oneshot import serving
from tuning.engines.proof.threads import BINDING

from .library import OfLibrary, given, loaded

Side = Literal["bound", "unbound", "onnxruntime"]
LAP_S = 1.0
"""How long inferences are measured, after one that counts for nothing."""


class Alone(OfLibrary, frozen=True, kw_only=True):
    side: Side
    """The library with TVM's threads bound to cores, as they are by default, or not; or ONNX Runtime."""


class Took(msgspec.Struct, tag="took", frozen=True):
    seconds: list[float]
    """Of each inference."""


def main() -> None:
    serving.serve(Alone, _answer, "It can't be measured")


def _answer(question: Alone, pipe: serving.Pipe) -> None:
    threads = use_cores(question.target)
    if question.side == "bound":
        os.environ[BINDING] = "1"
    infer = _onnxruntime(question, threads) if question.side == "onnxruntime" else _library(question)
    infer()
    seconds = list[float]()
    until = time.perf_counter() + LAP_S
    while (began := time.perf_counter()) < until:
        infer()
        seconds.append(time.perf_counter() - began)
    pipe.send(Took(seconds))


def _library(question: Alone) -> Callable[[], Any]:
    machine, arguments = loaded(question.library, question.inputs)
    return lambda: machine["main"](*arguments)


def _onnxruntime(question: Alone, threads: int) -> Callable[[], Any]:
    from tuning.engines.oneshot.comparing.reference import onnxruntime

    return onnxruntime(question.network, threads)(given(question.inputs))


if __name__ == "__main__":
    main()
