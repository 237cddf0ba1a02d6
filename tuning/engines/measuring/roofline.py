"""Measures a CPU at its best: how many operations it computes, and how many bytes it moves, in a second.

Kernels are built for the run's target as candidates are, and run on as many threads. Of several repeats the fastest counts: noise only
ever makes one slower.
"""

from __future__ import annotations

import time
from multiprocessing.context import ForkServerContext
from typing import Any, NamedTuple

import numpy as np
import psutil

from tuning.engines.wire.protocol import RooflineMeasured

from .arguments import RANDOM_FILL, allocated
from .pools import Ended, TimedOut, Workers

KERNELS = """
# from tvm.script import ir as I
# from tvm.script import tirx as T

@I.ir_module
class Kernels:
    @T.prim_func(s_tir=True)
    def compute(factors: T.Buffer((2, LANES), "float32"), sums: T.Buffer((THREADS, CHAINS, LANES), "float32"), turns: T.int32):
        T.func_attr({"tirx.noalias": True})
        for thread in T.parallel(THREADS):
            held = T.alloc_buffer((CHAINS, LANES), "float32", scope="local")
            for chain in T.unroll(CHAINS):
                for lane in T.vectorized(LANES):
                    held[chain, lane] = sums[thread, chain, lane]
            for turn in T.serial(turns):
                for chain in T.unroll(CHAINS):
                    for lane in T.vectorized(LANES):
                        held[chain, lane] = held[chain, lane] * factors[0, lane] + factors[1, lane]
            for chain in T.unroll(CHAINS):
                for lane in T.vectorized(LANES):
                    sums[thread, chain, lane] = held[chain, lane]

    @T.prim_func(s_tir=True)
    def read(x: T.Buffer((THREADS, ROWS, STREAMS, LANES), "float32"), sums: T.Buffer((THREADS, STREAMS, LANES), "float32"), rows: T.int32, turns: T.int32):
        T.func_attr({"tirx.noalias": True})
        for thread in T.parallel(THREADS):
            held = T.alloc_buffer((STREAMS, LANES), "float32", scope="local")
            for stream in T.unroll(STREAMS):
                for lane in T.vectorized(LANES):
                    held[stream, lane] = sums[thread, stream, lane]
            for turn in T.serial(turns):
                for row in T.serial(rows):
                    for stream in T.unroll(STREAMS):
                        for lane in T.vectorized(LANES):
                            held[stream, lane] = held[stream, lane] + x[thread, row, stream, lane]
            for stream in T.unroll(STREAMS):
                for lane in T.vectorized(LANES):
                    sums[thread, stream, lane] = held[stream, lane]

    @T.prim_func(s_tir=True)
    def update(x: T.Buffer((THREADS, ROWS, STREAMS, LANES), "float32"), y: T.Buffer((THREADS, HALF, STREAMS, LANES), "float32"), rows: T.int32, turns: T.int32):
        T.func_attr({"tirx.noalias": True})
        for thread in T.parallel(THREADS):
            for turn in T.serial(turns):
                for row in T.serial(rows):
                    for stream in T.unroll(STREAMS):
                        for lane in T.vectorized(LANES):
                            y[thread, row, stream, lane] = y[thread, row, stream, lane] * T.float32(0.5) + x[thread, row, stream, lane]
"""
"""`compute` needs as many independent chains as an FMA's latency times their number per cycle. It reads nothing: sums stay in registers.
`read` adds up an array; `update` reads two and writes one of them. Both go over the same `rows` again and again."""


class Vector(NamedTuple):
    lanes: int
    chains: int


VECTORS = (Vector(4, 12), Vector(4, 24), Vector(8, 12), Vector(16, 12), Vector(16, 24))
"""Lanes and chains that are tried: from 128 to 512 bits, for 16 and for 32 registers. LLVM splits vectors that the target doesn't have."""
STREAMS = 8
WIDTH = 4
"""Bytes of a float32."""
LEAST, MOST = 16 << 10, 256 << 20
"""The smallest working set of a thread, and the largest of all of them: well in the first cache, and well beyond the last."""
MEMORY_SHARE = 0.125
"""The largest working set is at most this share of the free memory."""
TURNS = 1 << 17
MOVED = 16 << 20
"""Turns of a chain, and bytes moved by a thread, in a call: starting the threads takes next to nothing of it."""
REPEATS, REPEAT_MS = 12, 1
"""Many short ones: on a machine that others use as well, some of them are left undisturbed."""
TIMEOUT_S = 60.0
"""Far longer than it takes on a quiet machine; how long it took is told."""


def measured(context: ForkServerContext, target: Any, threads: int | None) -> RooflineMeasured | str:
    """The machine's roofline, measured in a worker process as candidates are; or why there is none."""
    with Workers(context, 1, threads) as pool:
        ((_, outcome),) = pool.results([(measure, str(target), threads or 1)], TIMEOUT_S)
    if isinstance(outcome, RooflineMeasured):
        return outcome
    if isinstance(outcome, TimedOut):
        return f"it took longer than {TIMEOUT_S:g} s"
    return f"the process {outcome.how}" if isinstance(outcome, Ended) else str(outcome.text)


def measure(target_json: str, threads: int) -> RooflineMeasured:
    """Measure this machine by code for the target, in a worker that measures with so many threads."""
    began = time.monotonic()
    target = _target(target_json)
    kernels = {vector: _built(target, vector, threads, rows=1) for vector in VECTORS}
    found = {vector: _flops(module, vector, threads) for vector, module in kernels.items()}
    best = max(found, key=lambda vector: found[vector])
    bandwidths = _bandwidths(target, best, threads)
    # Once more after that, in case that something disturbed all of them.
    again = [_flops(module, vector, threads) for vector, module in kernels.items()]
    return RooflineMeasured(max(*found.values(), *again), bandwidths, threads, time.monotonic() - began)


def working_sets(threads: int, free: int) -> list[int]:
    """The sizes in bytes that are measured, each twice the one before, where so many bytes of memory are free."""
    sizes = [LEAST * threads]
    while sizes[-1] * 2 <= min(MOST, free * MEMORY_SHARE):
        sizes.append(sizes[-1] * 2)
    return sizes


def _target(target_json: str) -> Any:
    from tvm.target import Target

    return Target(target_json)


def _built(target: Any, vector: Vector, threads: int, rows: int) -> Any:
    from tvm.s_tir.meta_schedule.builder.local_builder import default_build
    from tvm.script import from_source
    from tvm.script import ir as I  # noqa: N812  TVMScript's name
    from tvm.script import tirx as T  # noqa: N812

    sizes = {"LANES": vector.lanes, "CHAINS": vector.chains, "THREADS": threads, "STREAMS": STREAMS}
    rows_of = {"ROWS": rows, "HALF": max(1, rows // 2)}
    return default_build(from_source(KERNELS, {"I": I, "T": T, **sizes, **rows_of}), target, None)


def _tensor(*shape: int) -> Any:
    import tvm

    (tensors,) = allocated(tvm.get_global_func(RANDOM_FILL), tvm.cpu(), [("TENSOR", "float32", list(shape))])
    return tensors[0]


def _fastest_s(module: Any, kernel: str, *arguments: Any) -> float:
    """Seconds of the fastest repeat of a call."""
    import tvm

    evaluate = module.time_evaluator(kernel, tvm.cpu(), number=1, repeat=REPEATS, min_repeat_ms=REPEAT_MS)
    return float(min(evaluate(*arguments).results))


def _flops(module: Any, vector: Vector, threads: int) -> float:
    import tvm

    # So that sums stay finite.
    factors = tvm.runtime.tensor(np.full((2, vector.lanes), 0.5, "float32"))
    sums = _tensor(threads, vector.chains, vector.lanes)
    took_s = _fastest_s(module, "compute", factors, sums, TURNS)
    return 2.0 * threads * vector.chains * vector.lanes * TURNS / took_s


def _bandwidths(target: Any, vector: Vector, threads: int) -> list[tuple[int, float]]:
    """Of each working set, by the faster of two kernels."""
    sizes = working_sets(threads, psutil.virtual_memory().available)
    of_row = STREAMS * vector.lanes * WIDTH
    most = sizes[-1] // threads // of_row
    module = _built(target, vector, threads, most)
    of_each = (STREAMS, vector.lanes)
    x, y = _tensor(threads, most, *of_each), _tensor(threads, max(1, most // 2), *of_each)
    sums = _tensor(threads, *of_each)
    return [(size, _bandwidth(module, x, y, sums, size // threads // of_row)) for size in sizes]


def _bandwidth(module: Any, x: Any, y: Any, sums: Any, rows: int) -> float:
    """Bytes per second of a working set of so many rows, which `update` divides between its two arrays."""
    row = WIDTH * STREAMS * int(x.shape[3])
    threads = int(x.shape[0])
    turns = max(1, MOVED // (rows * row))
    reading = threads * rows * row * turns / _fastest_s(module, "read", x, sums, rows, turns)
    half = max(1, rows // 2)
    updating = threads * 3 * half * row * turns / _fastest_s(module, "update", x, y, half, turns)
    return max(reading, updating)
