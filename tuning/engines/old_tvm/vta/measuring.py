"""Measures candidates for VTA: on its simulator, each in a process of its own, or on a tracker's boards, which are programmed first.

On the simulator a failed candidate may leave the process so that a later one never ends, so none is shared.
"""

import functools
import importlib
import os
import pickle
import select
import signal
import time
from typing import Any, Dict, List, NoReturn, Optional

from tvm import autotvm
from tvm.autotvm.measure import MeasureErrorNo

from tuning.engines.old_tvm.autotvm_measuring import Here, Remotely, failed, how_of, measure
from tuning.engines.old_tvm.engine import Run

from .builds import bitstream_path, load_simulator

STARTING_S = 60
"""How long the first measurement may take longer: it waits for a process that imports TVM and VTA."""
PIECE = 1 << 16


class Simulated(Here):
    """Measures on this machine's simulator."""

    def measured(self, candidate: Any, built: Any) -> Any:
        """The result, also if the process crashed or took too long."""
        return self.asked(measure_apart, (candidate, built, self.how, self.timeout), self.timeout + STARTING_S)


def runner_of(run: Run) -> Any:
    """A runner for this machine's simulator or for the boards of the run's tracker."""
    options, remote = run.start["options"], run.start["remote"]
    if remote:
        tracker = remote["tracker"]
        loader = autotvm.measure.default_module_loader(_before_loading(options)) if options["vta_program"] else None
        runner: Any = Remotely(
            remote["key"],
            tracker["host"],
            tracker["port"],
            timeout=options["run_timeout_s"],
            module_loader=loader,
            **how_of(options),
        )
    else:
        runner = Simulated(options["run_timeout_s"], **how_of(options))
    runner.tuning = run
    return runner


def _before_loading(options: Dict[str, Any]) -> Any:
    name = options["vta_bitstream"]
    return functools.partial(program, None if name is None else bitstream_path(name))


def program(bitstream: Optional[str], remote: Any, _built: Any) -> None:
    """Prepare a board for a session, as VTA's tutorial does: its runtime, then its FPGA. None: VTA's own bitstream."""
    vta = importlib.import_module("vta")
    vta.reconfig_runtime(remote)
    vta.program_fpga(remote, bitstream)


def measure_apart(candidate: Any, built: Any, how: Dict[str, int], timeout_s: float) -> Any:
    """Measure in a process forked for it from this one, which has the simulator loaded."""
    load_simulator()
    began = time.time()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        _answer(writer, candidate, built, how)
    os.close(writer)
    try:
        answer = _received(reader, began + timeout_s)
    finally:
        os.close(reader)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if answer is None:
        took_too_long = TimeoutError(f"no answer within {timeout_s:g} s")
        return failed(took_too_long, MeasureErrorNo.RUN_TIMEOUT, began)
    if not answer:
        crashed = RuntimeError(f"The process that simulated it {_end_of(status)}.")
        return failed(crashed, MeasureErrorNo.RUNTIME_DEVICE, began)
    return pickle.loads(answer)  # noqa: S301 - what our own child wrote


def _answer(writer: int, candidate: Any, built: Any, how: Dict[str, int]) -> NoReturn:
    """Never returns to the code that forked, nor runs what that process would run at its exit."""
    status = 1
    try:
        began = time.time()
        try:
            result = measure(candidate, built, how)
        except Exception as error:  # noqa: BLE001  whatever it is, it's the trial's
            result = failed(error, MeasureErrorNo.RUNTIME_DEVICE, began)
        answer = memoryview(pickle.dumps(result))
        while answer:
            answer = answer[os.write(writer, answer) :]
        status = 0
    finally:
        os._exit(status)


def _received(reader: int, deadline: float) -> Optional[bytes]:
    """All that the child wrote; None if it didn't end in time."""
    pieces: List[bytes] = []
    while True:
        readable, _, _ = select.select([reader], [], [], max(0.0, deadline - time.time()))
        if not readable:
            return None
        piece = os.read(reader, PIECE)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)


def _end_of(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"was killed by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"ended with status {os.WEXITSTATUS(status)}"
