"""The design spaces of Winograd's algorithm.

TVM's own rule splits each loop of the products into four at random, and few of these sums fit into registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import tvm_ffi

from tuning.engines.networks.tensorir import keep, last_after
from tuning.engines.targets.registers import AVX512, Registers, Tile, divisors

from .functions import IN_PARTS, INPUT_BLOCK, OUTPUT_BLOCK, PRODUCT_BLOCK

OFFERED = 4
"""Shapes of what is summed in registers, of which the search chooses."""
LONGEST_STEP = 8
"""Channels that are added up in straight-line code, at most."""
FEWEST_PARTS = 2
"""For each core: with fewer, threads would get unequal shares."""
LARGEST_PART = 640 << 10
"""Bytes of transformed inputs and of products: more don't stay in a core's caches."""
MOST_REREAD = 4
"""Each part reads all weights: at most so many times the bytes that then need not leave the caches."""
FLOAT32 = 4


def use(registers: Registers, cores: int) -> None:
    """Make schedules for such a CPU from now on. TVM tells a rule nothing of the target."""
    _register(PRODUCT_BLOCK, partial(_schedule_products, registers=registers))
    _register(IN_PARTS, partial(_schedule_all, registers=registers, cores=cores))


def _register(block: str, rule: Callable[[Any, Any], list[Any]]) -> None:
    """TVM looks the rule of an annotated block up by this name."""
    tvm_ffi.register_global_func(f"s_tir.meta_schedule.cpu.{block}", rule, override=True)


def _schedule_products(schedule: Any, block: Any, registers: Registers, most: int = OFFERED) -> list[Any]:
    """A few tiles by a few vectors of filters are summed in registers; the search chooses how many of each."""
    _, tiles, filters, _ = _extents(schedule, block)
    found = []
    for shape in registers.tiles(tiles, filters // registers.lanes)[:most]:
        offered = schedule.copy()
        outermost = _sum_in_registers(offered, block, shape, registers.lanes)
        _parallel(offered, offered.fuse(*outermost))
        found.append(offered)
    return found


def _schedule_input(schedule: Any, block: Any) -> list[Any]:
    _parallel_tiles(schedule, block)
    return [schedule]


def _schedule_output(schedule: Any, block: Any) -> list[Any]:
    """What is fused after the convolution is computed tile by tile."""
    _compute_outputs_at(schedule, block, _parallel_tiles(schedule, block))
    return [schedule]


def _schedule_all(schedule: Any, output: Any, registers: Registers, cores: int) -> list[Any]:
    """All three steps, in parts of some tiles or one after the other."""
    (product,) = schedule.get_producers(output)
    (given,) = schedule.get_producers(product)
    found = []
    for part in _parts(_Sizes(*_extents(schedule, product)), registers, cores)[:OFFERED]:
        found.append(schedule.copy())
        _schedule_parts(found[-1], (given, product, output), part, registers.lanes)
    for offered in _schedule_products(schedule, product, registers, OFFERED // 2 if found else OFFERED):
        _parallel_tiles(offered, given)
        _schedule_output(offered, output)
        found.append(offered)
    return found


class _Sizes(NamedTuple):
    """Extents of the products."""

    places: int
    tiles: int
    filters: int
    channels: int

    @property
    def weights(self) -> int:
        """Bytes."""
        return self.places * self.channels * self.filters * FLOAT32

    def between(self, tiles: int) -> int:
        """Bytes that so many tiles' steps hand on."""
        return self.places * tiles * (self.channels + self.filters) * FLOAT32


class _Part(NamedTuple):
    tiles: int
    shape: Tile


def _parts(sizes: _Sizes, registers: Registers, cores: int) -> list[_Part]:
    """Parts that pay, the fastest first; of equally fast ones the largest, which reads weights least often."""
    pay = [
        tiles
        for tiles in divisors(sizes.tiles, sizes.tiles // (FEWEST_PARTS * cores))
        if sizes.between(tiles) <= LARGEST_PART
        and sizes.tiles // tiles * sizes.weights <= MOST_REREAD * sizes.between(sizes.tiles)
    ]
    found = (_Part(tiles, shape) for tiles in pay for shape in registers.tiles(tiles, sizes.filters // registers.lanes))
    return sorted(found, key=lambda part: (*part.shape.speed, part.tiles), reverse=True)


def _schedule_parts(schedule: Any, blocks: tuple[Any, Any, Any], part: _Part, lanes: int) -> None:
    given, product, output = blocks
    *tiles, channels = schedule.get_loops(output)
    job, within = schedule.split(schedule.fuse(*tiles), [None, part.tiles])
    _parallel(schedule, job)
    keep(schedule, within, channels)
    _compute_outputs_at(schedule, output, channels)
    for step in (product, given):
        schedule.compute_at(step, job, preserve_unit_loops=True)
    keep(schedule, *schedule.get_loops(given)[1:])
    _sum_in_registers(schedule, product, part.shape, lanes)


def _sum_in_registers(schedule: Any, block: Any, shape: Tile, lanes: int) -> tuple[Any, Any]:
    """Tile a product; return its two outermost loops."""
    place, tile, filters, channel = _loops_of(schedule, block)
    tile, tiles = schedule.split(tile, [None, shape.rows])
    vector, vectors, in_vector = schedule.split(filters, [None, shape.vectors, lanes])
    step = schedule.sample_perfect_tile(channel, n=2, max_innermost_factor=LONGEST_STEP)
    channel, channels = schedule.split(channel, step)
    schedule.reorder(place, vector, tile, channel, channels, tiles, vectors, in_vector)
    result = schedule.cache_write(block, 0, "local")
    # Whatever is drawn, there must be as many loops.
    schedule.reverse_compute_at(result, tile, preserve_unit_loops=True)
    *stored, last = _loops_of(schedule, result)
    last, stored_lanes = schedule.split(last, [None, lanes])
    for loop in (channels, tiles, vectors, *stored, last):
        schedule.unroll(loop)
    for loop in (in_vector, stored_lanes):
        schedule.vectorize(loop)
    keep(schedule, in_vector, stored_lanes)
    return place, vector


def _compute_outputs_at(schedule: Any, block: Any, loop: Any) -> None:
    """Compute at this loop what follows the block."""
    last = last_after(schedule, block)
    schedule.reverse_compute_at(last, loop, preserve_unit_loops=True)
    *outer, _ = _loops_of(schedule, last)
    for one in outer:
        schedule.unroll(one)
    keep(schedule, *outer)


def _parallel_tiles(schedule: Any, block: Any) -> Any:
    """Divide the tiles of a transform among threads, and return the loop within."""
    *tiles, channels = schedule.get_loops(block)
    _parallel(schedule, schedule.fuse(*tiles))
    keep(schedule, channels)
    return channels


def _parallel(schedule: Any, loop: Any) -> None:
    schedule.parallel(loop)
    keep(schedule, loop)


def _loops_of(schedule: Any, block: Any) -> list[Any]:
    """The innermost loops, one for each axis of the block."""
    return list(schedule.get_loops(block)[-len(schedule.get(block).iter_vars) :])


def _extents(schedule: Any, block: Any) -> Iterator[int]:
    return (int(schedule.get(loop).extent) for loop in schedule.get_loops(block))


_register(INPUT_BLOCK, _schedule_input)
_register(OUTPUT_BLOCK, _schedule_output)
use(AVX512, 1)
