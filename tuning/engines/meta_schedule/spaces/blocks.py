"""Schedules transpositions block by block.

Along the last axis of a transposed output, the numbers of the input are far apart, each in another line of the caches. TVM's own schedules use a single
number of each line before they need the next one. A small block uses whole lines of both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from tvm import tirx
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule.schedule import ScheduleError
from tvm.tirx import IndexMap

from tuning.engines.networks.tensorir import keep
from tuning.engines.targets.registers import Registers

from .marks import IN_BLOCKS, mark
from .scheduling import FEWEST_JOBS, one_of, reduces

VECTORS = (1, 2)
"""Extents of a block along the input's last axis, in vectors, of which the search chooses."""
LENGTHS = (8, 16, 32)
"""Extents along the output's last axis."""


class _Transposition(NamedTuple):
    extents: list[int]
    """Of the block's loops, in the order of the output's axes."""
    along: int
    """Which of them goes along the input's last axis."""


@derived_object
class Blocks(ms.schedule_rule.PyScheduleRule):  # type: ignore[misc]
    """Offers such a schedule of a function's last block besides what the other rules do."""

    def __init__(self, registers: Registers) -> None:
        super().__init__()
        self._registers = registers

    def _initialize_with_tune_context(self, context: Any) -> None:
        """TVM's name. Nothing of the context is needed."""

    def apply(self, schedule: Any, block: Any) -> list[Any]:
        """The schedule as it is, and in blocks."""
        with suppress(ScheduleError):
            found = _transposition(schedule, block)
            if found and (widths := self._widths(found.extents[found.along])):
                in_blocks = schedule.copy()
                _in_blocks(in_blocks, block, found, widths)
                return [schedule, in_blocks]
        return [schedule]

    def _widths(self, extent: int) -> list[int]:
        """Those that divide it."""
        return [width for vectors in VECTORS if extent % (width := self._registers.lanes * vectors) == 0]

    def clone(self) -> Any:
        """TVM's name."""
        return Blocks(self._registers)


def _transposition(schedule: Any, block: Any) -> _Transposition | None:
    """None if the block is something else, or the function has more to do than to copy what it reads, one by one."""
    blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
    node = schedule.get(block)
    if not schedule.get(blocks[-1]).same_as(node) or any(reduces(schedule, one) for one in blocks):
        return None
    extents = [schedule.get(loop).extent for loop in schedule.get_loops(block)]
    variables = [one.var for one in node.iter_vars]
    if len(extents) != len(variables) or len(extents) < 2 or not all(isinstance(one, tirx.IntImm) for one in extents):
        return None
    written = node.writes[0]
    if str(written.source.dtype) != "float32" or _distances(written, variables)[-1:] != [1]:
        return None
    for read in node.reads:
        distances = _distances(read, variables)
        if distances and distances[-1] > 1 and 1 in distances:
            return _Transposition([int(one) for one in extents], distances.index(1))
    return None


def _distances(accessed: Any, variables: Sequence[Any]) -> list[int]:
    """How far apart in memory the first two neighbours along each loop are; none if that depends on data."""
    indices = IndexMap(list(variables), [one.min for one in accessed.region], None)
    shape = accessed.source.shape

    def address(loop: int | None) -> int | None:
        at = indices.map_indices(
            [tirx.IntImm(str(one.ty.dtype), int(nth == loop)) for nth, one in enumerate(variables)]
        )
        if not all(isinstance(one, tirx.IntImm) for one in (*at, *shape)):
            return None
        return sum(int(one) * math.prod(map(int, shape[axis + 1 :])) for axis, one in enumerate(at))

    first, *others = (address(loop) for loop in (None, *range(len(variables))))
    return [] if first is None or None in others else [one - first for one in others if one is not None]


def _in_blocks(schedule: Any, block: Any, found: _Transposition, widths: Sequence[int]) -> None:
    loops, extents = schedule.get_loops(block), found.extents
    others = [nth for nth in range(len(loops) - 1) if nth != found.along]
    across, vector = schedule.split(loops[found.along], [None, one_of(schedule, widths)])
    down, row = schedule.split(loops[-1], [None, one_of(schedule, _lengths(extents[-1]))])
    jobs = [loops[nth] for nth in others]
    inside = [across, down]
    if math.prod(extents[nth] for nth in others) < FEWEST_JOBS:
        jobs.append(inside.pop(0))
    schedule.reorder(*jobs, *inside, row, vector)
    job = schedule.fuse(*jobs) if len(jobs) > 1 else jobs[0]
    schedule.parallel(job)
    schedule.unroll(row)
    schedule.vectorize(vector)
    keep(schedule, job, row, vector)
    mark(schedule, block, IN_BLOCKS)


def _lengths(extent: int) -> list[int]:
    """Those that divide it, if any does."""
    return [one for one in LENGTHS if extent % one == 0] or [one for one in LENGTHS if one <= extent] or [extent]
