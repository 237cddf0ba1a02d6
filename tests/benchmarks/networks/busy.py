"""Measures a library while something else keeps a core busy, its threads bound to cores and not, and ONNX Runtime in turn with it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from tests.benchmarks.engine.sides import GENEROUS, Broken
from tuning.engines.wire.errors import Refused
from tuning.host import sandbox
from tuning.models import Compilation, Run

from .alone import Alone, Side, Took
from .library import about

SIDES: tuple[Side, ...] = ("bound", "unbound", "onnxruntime")
ROUNDS = 3
LONGEST_S = 60.0
"""How long a process may take. The ones that end in time need a few seconds."""
SPIN = "import os, sys\nos.sched_setaffinity(0, [int(sys.argv[1])])\nwhile True: pass"


class Busy(msgspec.Struct, frozen=True):
    """Seconds of each inference by side. A side that never ended in time has none."""

    quiet: dict[Side, list[float]]
    busy: dict[Side, list[float]]
    """While a process that never waits was bound to one of the cores."""


def measured(run: Run, compilation: Compilation) -> Busy:
    """Raises `Broken`."""
    quiet, busy = ({side: list[float]() for side in SIDES} for _ in range(2))
    for nth in range(ROUNDS):
        for side in SIDES:
            quiet[side] += _took(side, run, compilation)
            if nth == 0 or busy[side]:  # A side that was late isn't waited for again.
                with busy_core():
                    busy[side] += _took(side, run, compilation, may_be_late=True)
    return Busy(quiet, busy)


@contextmanager
def busy_core() -> Iterator[None]:
    """Another process keeps the last core of this one busy."""
    process = subprocess.Popen([sys.executable, "-c", SPIN, str(max(os.sched_getaffinity(0)))])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _took(side: Side, run: Run, compilation: Compilation, *, may_be_late: bool = False) -> list[float]:
    """Nothing if it is late."""
    question = Alone(side=side, **about(run, compilation), **GENEROUS)
    began = time.monotonic()
    try:
        limits = sandbox.Limits(int(LONGEST_S))
        return sandbox.ask_once("tests.benchmarks.networks.alone", question, Took, limits=limits).seconds
    except Refused as error:
        if may_be_late and time.monotonic() - began >= LONGEST_S:
            return []
        raise Broken(f"Run {run.pk} couldn't be measured by single inferences: {error}") from error
