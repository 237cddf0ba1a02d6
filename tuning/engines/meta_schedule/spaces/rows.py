"""Schedules functions that reduce the rows of a tensor, such as softmax and layer normalization, so that each row is computed at once.

TVM's own rules place each of their steps at random, and sum a row's numbers one after the other: of softmax's sketches most are ten to fifty times as slow
as the best. Here a thread goes through all steps of a row while it is in the core's caches, and sums whole vectors.
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

from tuning.engines.networks.tensorir import keep
from tuning.engines.targets.registers import Registers

from .marks import BY_ROWS, mark
from .products import product_of
from .scheduling import one_of, reduces

CHAINS = (1, 2, 4)
"""Vectors of partial sums that don't wait for each other."""


class _NotByRows(Exception):
    """A step needs more of an earlier one than its row."""


class _Step(NamedTuple):
    """A block of the function."""

    block: Any
    reduces: bool


@derived_object
class Rows(ms.schedule_rule.PyScheduleRule):  # type: ignore[misc]
    """Offers such a schedule of a function's last block and all before it, besides what the other rules do."""

    def __init__(self, registers: Registers) -> None:
        super().__init__()
        self._registers = registers

    def _initialize_with_tune_context(self, context: Any) -> None:
        """TVM's name. Nothing of the context is needed."""

    def apply(self, schedule: Any, block: Any) -> list[Any]:
        """The schedule as it is, and by rows."""
        with suppress(ScheduleError, _NotByRows):
            if steps := _steps(schedule, block):
                by_rows = schedule.copy()
                _by_rows(by_rows, block, steps, self._registers.lanes)
                return [schedule, by_rows]
        return [schedule]

    def clone(self) -> Any:
        """TVM's name."""
        return Rows(self._registers)


def _steps(schedule: Any, last: Any) -> list[_Step]:
    """What comes before the function's last block, in order; none if anything but rows is reduced, or the block isn't the last one."""
    *before, end = schedule.get_child_blocks(schedule.get_sblock("root"))
    if not before or not schedule.get(end).same_as(schedule.get(last)) or reduces(schedule, last):
        return []
    rows = _extents(schedule, last)[:-1]
    steps = [_Step(block, reduces(schedule, block)) for block in before]
    fit = all(_fits(schedule, step, rows) for step in steps)
    return steps if rows and fit and any(step.reduces for step in steps) else []


def _fits(schedule: Any, step: _Step, rows: Sequence[int]) -> bool:
    """Whether the block computes something of each row, from all of it if it reduces."""
    extents, node = _extents(schedule, step.block), schedule.get(step.block)
    if extents[: len(rows)] != rows or str(node.writes[0].source.dtype) != "float32":
        return False
    if not step.reduces:
        return True
    return len(extents) == len(rows) + 1 and product_of(schedule, step.block) is None


def _extents(schedule: Any, block: Any) -> list[int]:
    """Of its loops; none if any isn't fixed."""
    extents = [schedule.get(loop).extent for loop in schedule.get_loops(block)]
    return [int(one) for one in extents] if all(isinstance(one, tirx.IntImm) for one in extents) else []


def _by_rows(schedule: Any, last: Any, steps: Sequence[_Step], lanes: int) -> None:
    """Raises `ScheduleError` and `_NotByRows`."""
    *loops, along = schedule.get_loops(last)
    row = schedule.fuse(*loops) if len(loops) > 1 else loops[0]
    schedule.parallel(row)
    keep(schedule, row)
    _vectorize(schedule, along, lanes)
    for step in reversed(steps):
        (_reduce if step.reduces else _compute)(schedule, step.block, row, lanes)
    mark(schedule, last, BY_ROWS)


def _compute(schedule: Any, block: Any, row: Any, lanes: int) -> None:
    _place(schedule, block, row)
    _vectorize(schedule, schedule.get_loops(block)[-1], lanes)


def _reduce(schedule: Any, block: Any, row: Any, lanes: int) -> None:
    """Sum, or whatever it does, vectors of every so many numbers, and then the numbers of these. One by one if the row isn't whole vectors."""
    *_, along = schedule.get_loops(block)
    widths = [lanes * chains for chains in CHAINS if int(schedule.get(along).extent) % (lanes * chains) == 0]
    if not widths:
        _place(schedule, block, row)
        return
    _, within = schedule.split(along, [None, one_of(schedule, widths)])
    partial = schedule.rfactor(within, len(schedule.get(block).writes[0].region))
    for one in (block, partial):
        _place(schedule, one, row)
    _, within, *units, over = schedule.get_loops(partial)
    chains, lane = schedule.split(within, [None, lanes])
    schedule.reorder(*units, over, chains, lane)
    schedule.unroll(chains)
    schedule.vectorize(lane)
    keep(schedule, chains, lane)
    schedule.decompose_reduction(partial, over)


def _place(schedule: Any, block: Any, row: Any) -> None:
    """Have the block compute its part of the row in it."""
    before = math.prod(_extents(schedule, block))
    schedule.compute_at(block, row, preserve_unit_loops=True)
    if math.prod(_extents(schedule, block)) > before:
        raise _NotByRows
    mark(schedule, block, BY_ROWS)


def _vectorize(schedule: Any, loop: Any, lanes: int) -> None:
    """Unless it isn't whole vectors: LLVM vectorizes such a loop by itself."""
    if int(schedule.get(loop).extent) % lanes:
        return
    _, lane = schedule.split(loop, [None, lanes])
    schedule.vectorize(lane)
    keep(schedule, lane)
