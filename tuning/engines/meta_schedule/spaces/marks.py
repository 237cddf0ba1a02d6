"""Marks blocks that our rules have scheduled."""

from __future__ import annotations

from typing import Any

MARK = "meta_schedule.tiling_structure"
"""TVM's rules leave a block alone that has this annotation, whatever its value."""
TILED, BY_ROWS, IN_BLOCKS = "registers", "rows", "blocks"


def mark(schedule: Any, block: Any, kind: str) -> None:
    """Have TVM's rules leave it alone."""
    schedule.annotate(block, MARK, kind)


def marks(schedule: Any) -> set[str]:
    """The kinds of a sketch or a candidate, as TVM's trace has them; none if only TVM's rules made it."""
    return {
        str(one.inputs[1])
        for one in schedule.trace.insts
        if str(one.kind.name) == "Annotate" and str(one.attrs[0]) == MARK
    } & {TILED, BY_ROWS, IN_BLOCKS}
