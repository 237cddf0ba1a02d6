"""Blocks that sum products, such as those of matrix products and convolutions, and which of their loops a tile can extend over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tvm import tirx
from tvm.ir import TensorLoad
from tvm.sym.pattern import detect_linear_equation

SUMS = 2
"""TVM's kind of a loop that sums."""


class Axes(NamedTuple):
    """Loops of a block, by position."""

    vector: int
    """Its neighbours are beside each other in memory, or can be packed so."""
    rows: int
    """The factors of its neighbours are the same for all lanes of a vector."""


class Product(NamedTuple):
    """A block that sums products of two buffers' elements in float32."""

    extents: list[int]
    """Of its loops."""
    spatial: list[int]
    """Positions of the loops over the output, in the order of its axes."""
    summed: list[int]
    """Positions of the others."""
    factors: tuple[Factor, Factor]

    def axes(self) -> Iterator[Axes]:
        """The ways to lay a tile of vectors into the output."""
        for this, other in (self.factors, self.factors[::-1]):
            if rows := sorted(other.loops - this.loops):
                own, common = sorted(this.loops - other.loops), sorted(this.loops & other.loops)
                if own and this.is_contiguous(own[-1]):
                    yield Axes(own[-1], rows[-1])
                if common and all(one.is_contiguous(common[-1]) for one in self.factors):
                    yield Axes(common[-1], rows[-1])

    def scattered(self, axes: Axes) -> Factor | None:
        """A factor that a tile can use several times, and whose neighbours in memory belong to different sums of it, so the terms of a sum are far apart.

        None if it can be packed before the function is called.
        """
        for one in self.factors:
            is_reused = not one.loops.issuperset(axes)
            if is_reused and one.is_argument and not one.is_free and any(one.ends_in(loop) for loop in axes):
                return one
        return None


class Factor(NamedTuple):
    """One of the two buffers, as the block reads it."""

    source: Any
    """The buffer."""
    indices: list[Any]
    variables: list[Any]
    """Of all loops of the block."""
    loops: set[int]
    """Positions of the spatial loops that its indices depend on."""
    is_free: bool
    """Whether it is a constant whose layout in memory schedules choose."""
    is_argument: bool
    """Whether it is read as the function is given it."""

    def ends_in(self, loop: int) -> bool:
        """Whether the loop goes through the last axis."""
        return _depends(self.indices[-1], self.variables[loop])

    def is_contiguous(self, loop: int) -> bool:
        """Whether a vector along the loop can be read at once."""
        found = detect_linear_equation(self.indices[-1], [self.variables[loop]])
        return self.is_free or (len(found) > 0 and isinstance(found[0], tirx.IntImm) and int(found[0]) == 1)


def product_of(schedule: Any, block: Any) -> Product | None:
    """What the block sums; None if it does anything else, or its loops aren't those of its axes anymore."""
    node, loops = schedule.get(block), [schedule.get(loop) for loop in schedule.get_loops(block)]
    read = _products(node)
    if not read or len(loops) != len(node.iter_vars) or not all(isinstance(loop.extent, tirx.IntImm) for loop in loops):
        return None
    kinds = [int(one.iter_type) for one in node.iter_vars]
    variables = [one.var for one in node.iter_vars]
    spatial = [nth for nth, kind in enumerate(kinds) if kind != SUMS]
    if not _are(node.body.indices, [variables[nth] for nth in spatial]):
        return None
    free = _layout_free(schedule.mod["main"])
    factors = [
        Factor(
            load.source,
            list(load.indices),
            variables,
            {nth for nth in spatial if any(_depends(index, variables[nth]) for index in load.indices)},
            any(load.source.same_as(one) for one in free),
            any(load.source.same_as(one) for one in schedule.mod["main"].params),
        )
        for load in read
    ]
    summed = [nth for nth, kind in enumerate(kinds) if kind == SUMS]
    return Product([int(loop.extent) for loop in loops], spatial, summed, (factors[0], factors[1]))


def _products(node: Any) -> list[Any]:
    """The loads of y = y + a · b; none if the block's body is another one."""
    if node.init is None or not isinstance(node.body, tirx.BufferStore) or not isinstance(node.body.value, tirx.Add):
        return []
    product = node.body.value.b
    if not isinstance(product, tirx.Mul) or str(product.ty.dtype) != "float32":
        return []
    factors = [product.a, product.b]
    return factors if all(isinstance(one, TensorLoad) for one in factors) else []


def _are(indices: Any, variables: list[Any]) -> bool:
    return len(indices) == len(variables) and all(
        index.same_as(one) for index, one in zip(indices, variables, strict=True)
    )


def _depends(index: Any, variable: Any) -> bool:
    return any(one.same_as(variable) for one in tirx.analysis.undefined_vars(index, []))


def _layout_free(function: Any) -> list[Any]:
    """The function's arguments that are constants of the network: see `extraction`."""
    positions = function.attrs.get("layout_free_buffers", []) if function.attrs else []
    return [function.params[int(nth)] for nth in positions]
