"""Measures a function with its weights as cold as they are in its network.

Measured over and over, a function finds its weights in the caches. In the network other functions run between two uses of
them, read weights of their own and write results. So before each timed execution all threads read as many bytes as that are,
and then the function's other arguments, which in the network have just been written.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from functools import cache
from statistics import median
from typing import Any

import numpy as np

from .arguments import WEIGHTS

MOST_BYTES = 128 << 20
"""Reading more than this pushes nothing else out of a CPU's caches."""
MOST_EXECUTIONS = 1000
THREADS = "TVM_NUM_THREADS"
"""The environment variable that says how many threads functions run on in this process."""
BEFORE_EACH = "tuneboard.measuring.before_each"
"""TVM calls the global function of this name before each timed execution."""
SWEEP = """
# from tvm.script import ir as I
# from tvm.script import tirx as T

@I.ir_module
class Kernels:
    @T.prim_func(s_tir=True)
    def sweep(data: T.handle, sums: T.Buffer((THREADS,), "int32")):
        T.func_attr({"tirx.noalias": True})
        lines = T.int64()
        words = T.match_buffer(data, (lines, WORDS), "int32")
        for thread in T.parallel(THREADS):
            for line in T.serial((lines + (THREADS - 1)) // THREADS):
                if thread * ((lines + (THREADS - 1)) // THREADS) + line < lines:
                    sums[thread] = sums[thread] + words[thread * ((lines + (THREADS - 1)) // THREADS) + line, 0]
"""
"""Reads a word of each cache line, each thread in a part of its own."""
LINE = 64
"""Bytes of a cache line."""
WORD = 4
_largest: list[Any] = []
"""The tensor of the task that needed most, for all tasks that this worker measures."""


class Evaluator:
    """Measures a module on this machine's CPU, as if `cold_bytes` were touched between two uses of its weights, these among them."""

    def __init__(self, module: Any, device: Any, arguments: Sequence[tuple[str, Any]], cold_bytes: int) -> None:
        """`arguments` are tensors with their kinds, which are as of `arguments.described`."""
        self._module = module
        self._device = device
        self._arguments = [tensor for _, tensor in arguments]
        own = [tensor for kind, tensor in arguments if kind == WEIGHTS]
        rest = [tensor for kind, tensor in arguments if kind != WEIGHTS]
        elsewhere = cold_bytes - sum(_bytes(tensor.shape, str(tensor.dtype)) for tensor in own)
        lines = [_lines(_other_weights(cold_bytes), elsewhere), *(_lines(tensor) for tensor in rest)]
        self._read_before = [each for each in lines if each is not None]

    def run_secs(self, config: Any) -> list[float]:
        """By an `EvaluatorConfig`: for each repeat, the median of at least `number` executions, or of as many as take `min_repeat_ms`.

        What is read before an execution counts in `min_repeat_ms`, and not in the result.
        """
        found, took_s = self._executions(config.number * config.repeat)
        wanted = min(MOST_EXECUTIONS, math.ceil(config.min_repeat_ms / 1e3 * len(found) / took_s))
        if wanted > config.number:
            found += self._executions((wanted - config.number) * config.repeat)[0]
        return [median(found[nth :: config.repeat]) for nth in range(config.repeat)]

    def _executions(self, number: int) -> tuple[list[float], float]:
        """Seconds of so many executions, each timed by itself; and of all of them, with what is read between them.

        TVM executes the function once before these: that first call compiles it.
        """
        import tvm_ffi

        sweep, sums = _sweep(int(os.environ[THREADS]))

        began: list[float] = []

        def before_each(*_: Any) -> None:
            began.append(time.monotonic())
            for lines in self._read_before:
                sweep(lines, sums)

        tvm_ffi.register_global_func(BEFORE_EACH, before_each, override=True)
        try:
            evaluate = self._module.time_evaluator(
                self._module.entry_name, self._device, number=1, repeat=number, f_preproc=BEFORE_EACH
            )
            found = [float(seconds) for seconds in evaluate(*self._arguments).results]
            return found, time.monotonic() - began[0]
        finally:
            tvm_ffi.registry.remove_global_func(BEFORE_EACH)


def _bytes(shape: Any, dtype: str) -> int:
    import tvm

    return math.prod(map(int, shape)) * int(tvm.DataType(dtype).itemsize)


def _lines(tensor: Any, most_bytes: int | None = None) -> Any:
    """The tensor's first bytes as whole cache lines; None if it has none."""
    held = _bytes(tensor.shape, str(tensor.dtype))
    lines = min(held, held if most_bytes is None else max(0, most_bytes)) // LINE
    return tensor._create_view((lines, LINE // WORD), "int32") if lines else None  # noqa: SLF001  TVM offers no other view


def _other_weights(cold_bytes: int) -> Any:
    """What is read in place of the network's other weights: at least so many bytes, up to `MOST_BYTES`."""
    import tvm

    words = min(MOST_BYTES, cold_bytes) // WORD
    if not _largest or int(_largest[0].shape[0]) < words:
        tensor = tvm.runtime.empty((words,), "int32")
        tensor.copyfrom(np.ones(tensor.shape, "int32"))  # Pages that were never written would all be the same one.
        _largest[:] = [tensor]
    return _largest[0]


@cache
def _sweep(threads: int) -> tuple[Any, Any]:
    """The kernel, and what it writes to."""
    import tvm
    from tvm.script import from_source

    source = SWEEP.replace("THREADS", str(threads)).replace("WORDS", str(LINE // WORD))
    sums = tvm.runtime.empty((threads,), "int32")
    sums.copyfrom(np.zeros(threads, "int32"))
    return tvm.compile(from_source(source), {"kind": "llvm"})["sweep"], sums
