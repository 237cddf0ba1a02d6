"""Schedules matrix products and convolutions so that a tile of the output is summed in a CPU's registers.

TVM's own rule splits each loop into four at random. Few of the tiles that it draws fit into registers and are whole vectors, so it takes many
trials until one does. Here only such tiles are offered. The search chooses among them, and measures them beside TVM's own.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule.schedule import ScheduleError
from tvm.tirx import IndexMap

from tuning.engines.networks.tensorir import keep
from tuning.engines.targets.registers import FEWEST_LANES, Registers, divisors

from .marks import TILED, mark
from .padding import pad, padding
from .products import Axes, Factor, Product, product_of
from .scheduling import FEWEST_JOBS, one_of

LONGEST_STEP = 8
"""Terms of a sum that are unrolled, at most."""
SHAPES, OFFERED = 5, 3
"""Shapes of a tile, and steps."""
FEWEST_ROWS = 4
"""Of a tile that is stored row by row, because its vectors don't lie along the output's last axis."""


class _Tile(NamedTuple):
    """Rows of vectors of sums."""

    axes: Axes
    lanes: int
    width: int
    """In vectors."""
    heights: list[int]
    """In rows, of which the search chooses."""

    def counts(self, product: Product) -> dict[int, int]:
        """By spatial loop, how many tiles there are along it."""
        sizes = {self.axes.vector: self.lanes * self.width, self.axes.rows: self.heights[-1]}
        return {nth: product.extents[nth] // sizes.get(nth, 1) for nth in product.spatial}


@derived_object
class RegisterTiles(ms.schedule_rule.PyScheduleRule):  # type: ignore[misc]
    """Offers such schedules of a block besides what the other rules do with it."""

    def __init__(self, registers: Registers) -> None:
        super().__init__()
        self._registers = registers

    def _initialize_with_tune_context(self, context: Any) -> None:
        """TVM's name. Nothing of the context is needed."""

    def apply(self, schedule: Any, block: Any) -> list[Any]:
        """The schedule as it is, and with each kind of tile."""
        sketches = [schedule]
        product = product_of(schedule, block)
        if product is None:
            return sketches
        for axes in product.axes():
            padded = _padded(schedule, block, product, axes, self._registers)
            sketches += padded or _with_tiles(schedule, block, product, axes, self._registers)
        return sketches

    def clone(self) -> Any:
        """TVM's name."""
        return RegisterTiles(self._registers)


class _Order(NamedTuple):
    """The spatial loops by position, outermost first. Along a tile's two they go from one tile to the next."""

    job: list[int]
    """Those that are divided among threads."""
    inside: list[int]
    packed: Factor | None = None
    """What a job copies before it reads it."""

    def divides(self, factor: Factor, axes: Axes) -> bool:
        """Whether jobs need different parts of the factor."""
        if self.inside == [axes.vector]:
            return axes.rows in factor.loops
        return self.inside == [axes.rows] and axes.rows not in factor.loops


def _padded(schedule: Any, block: Any, product: Product, axes: Axes, registers: Registers) -> list[Any]:
    """With tiles of a padded product; none if that isn't worth it, or TVM can't pad it."""
    extents = padding(product, axes, registers)
    if not extents:
        return []
    padded = schedule.copy()
    with suppress(ScheduleError):
        pad(padded, block, extents)
        wider = product_of(padded, block)
        return [*_with_tiles(padded, block, wider, axes, registers)] if wider else []
    return []


def _with_tiles(schedule: Any, block: Any, product: Product, axes: Axes, registers: Registers) -> Iterator[Any]:
    for tile in _tiles(product, axes, registers):
        for order in _orders(product, tile):
            tiled = schedule.copy()
            # What is fused after the block may not be computable tile by tile, such as a transposition.
            with suppress(ScheduleError):
                _tile(tiled, block, product, tile, order)
                yield tiled


def _tiles(product: Product, axes: Axes, registers: Registers) -> Iterator[_Tile]:
    """The fastest shapes; none if there are no whole vectors."""
    extent = product.extents[axes.vector]
    lanes = registers.width(extent)
    if lanes is None:
        return
    heights: dict[int, list[int]] = defaultdict(list)
    shapes = registers.tiles(product.extents[axes.rows], extent // lanes)
    if axes.vector != product.spatial[-1]:
        tall = max(shape.rows for shape in shapes)
        shapes = [shape for shape in shapes if shape.rows >= min(tall, FEWEST_ROWS)]
    for shape in shapes[:SHAPES]:
        heights[shape.vectors].append(shape.rows)
    yield from (_Tile(axes, lanes, width, sorted(rows)) for width, rows in heights.items())


def _orders(product: Product, tile: _Tile) -> Iterator[_Order]:
    """A thread keeps the columns of its job in its caches while it goes through their rows, or the other way round.

    If what it would keep is scattered in memory, it is packed first, and used for all that doesn't depend on more.
    """
    axes, counts = tile.axes, tile.counts(product)
    others = [nth for nth in product.spatial if nth not in axes]
    scattered = product.scattered(axes)
    held = [nth for nth in product.spatial if scattered and nth in scattered.loops]
    packs = scattered is not None and math.prod(counts[nth] for nth in held) >= FEWEST_JOBS
    for first, last in (axes, axes[::-1]):
        job = [first, *others] if first == axes.vector else [*others, first]
        if packs and first in held:
            yield _Order(held, [nth for nth in product.spatial if nth not in held], scattered)
        elif math.prod(counts[nth] for nth in job) >= FEWEST_JOBS:
            yield _Order(job, [last])
        elif first == axes.vector:
            yield _Order([*job, last], [])


def _tile(schedule: Any, block: Any, product: Product, tile: _Tile, order: _Order) -> None:
    """Tile the block."""
    loops, axes = schedule.get_loops(block), tile.axes
    outer = dict(enumerate(loops))
    outer[axes.vector], vectors, lanes = schedule.split(loops[axes.vector], [None, tile.width, tile.lanes])
    outer[axes.rows], rows = schedule.split(loops[axes.rows], [None, one_of(schedule, tile.heights)])
    sums = _split_sums(schedule, product, loops)
    jobs, inside = [outer[nth] for nth in order.job], [outer[nth] for nth in order.inside]
    schedule.reorder(*jobs, *inside, *sums, rows, vectors, lanes)
    job = schedule.fuse(*jobs) if len(jobs) > 1 else jobs[0]
    stored = _store(schedule, block, product, tile, inside[-1] if inside else job)
    _place_padding(schedule, block, [one.source for one in product.factors if order.divides(one, axes)], job)
    if order.packed:
        _pack(schedule, block, order.packed, tile, job)
    schedule.parallel(job)
    for loop in (sums[-1], rows, vectors, *stored[:-1]):
        schedule.unroll(loop)
    for loop in (lanes, stored[-1]):
        schedule.vectorize(loop)
    keep(schedule, job, lanes, stored[-1])
    mark(schedule, block, TILED)


def _split_sums(schedule: Any, product: Product, loops: Sequence[Any]) -> list[Any]:
    """The loops of the sum, of which the last one is short enough to unroll."""
    innermost = max(product.summed, key=lambda nth: (product.extents[nth] > 1, nth))
    steps = divisors(product.extents[innermost], LONGEST_STEP)[-OFFERED:]
    last, step = schedule.split(loops[innermost], [None, one_of(schedule, steps)])
    return [*(loops[nth] for nth in product.summed if nth != innermost), last, step]


def _store(schedule: Any, block: Any, product: Product, tile: _Tile, within: Any) -> list[Any]:
    """Take the sums of a tile out of the registers, with what is fused after the block; return the loops, vectors last. Raises `ScheduleError`."""
    consumers = list(schedule.get_consumers(block))
    if len(consumers) == 1 and not schedule.get_consumers(consumers[0]):
        (result,) = consumers
        schedule.set_scope(block, 0, "local")
    else:
        result = schedule.cache_write(block, 0, "local")
    schedule.reverse_compute_at(result, within, preserve_unit_loops=True)
    along = product.spatial.index(tile.axes.vector)
    _put_last(schedule, block, along, len(product.spatial))
    above = next(nth for nth, loop in enumerate(schedule.get_loops(block)) if _same(schedule, loop, within)) + 1
    loops = schedule.get_loops(result)[above:]
    if len(loops) != len(product.spatial):
        along = -1
    extent = int(schedule.get(result).iter_vars[along].dom.extent)
    loops[along], lanes = schedule.split(loops[along], [None, _lanes_to_store(extent, tile.lanes)])
    schedule.reorder(*loops, lanes)
    return [*loops, lanes]


def _lanes_to_store(extent: int, lanes: int) -> int:
    """Those of the sums, or a part of them that divides the output: TVM stores numbers one by one where it must ask for each whether it is inside."""
    common = math.gcd(extent, lanes)
    return common if common >= FEWEST_LANES else lanes


def _same(schedule: Any, one: Any, other: Any) -> bool:
    return bool(schedule.get(one).loop_var.same_as(schedule.get(other).loop_var))


def _put_last(schedule: Any, block: Any, axis: int, rank: int) -> None:
    """Have the sums of a vector be beside each other."""
    if axis == rank - 1:
        return

    def moved(*indices: Any) -> list[Any]:
        return [*(one for nth, one in enumerate(indices) if nth != axis), indices[axis]]

    schedule.transform_layout(block, ("write", 0), IndexMap.from_func(moved, ndim=rank))


def _pack(schedule: Any, block: Any, factor: Factor, tile: _Tile, job: Any) -> None:
    """Have the job copy what it reads of the factor. Where that lies, the terms of a sum are often a power of two apart, so caches can't hold many."""
    at = next(nth for nth, read in enumerate(schedule.get(block).reads) if read.source.same_as(factor.source))
    copied = schedule.cache_read(block, at, "global")
    schedule.compute_at(copied, job, preserve_unit_loops=True)
    innermost = schedule.get_loops(copied)[-1]
    lanes = math.gcd(int(schedule.get(innermost).extent), tile.lanes)
    if lanes > 1:
        _, vector = schedule.split(innermost, [None, lanes])
        schedule.vectorize(vector)
        keep(schedule, vector)
    mark(schedule, copied, TILED)


def _place_padding(schedule: Any, block: Any, divided: Sequence[Any], job: Any) -> None:
    """Pad what a job needs of divided buffers in the job, and all of others before; elsewhere TVM would draw a place for it, most of which are poor."""
    for producer in schedule.get_producers(block):
        node = schedule.get(producer)
        if node.init is not None:
            continue
        if any(one.same_as(node.writes[0].source) for one in divided):
            schedule.compute_at(producer, job, preserve_unit_loops=True)
        else:
            mark(schedule, producer, TILED)
