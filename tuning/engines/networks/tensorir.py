"""What functions that are written as TVMScript share, with the rules that schedule them, and what replaces operators by them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from textwrap import indent
from typing import Any, NamedTuple

from tvm import IRModule, relax
from tvm.script import from_source

INSIDE = " " * 12
"""The indentation of a block's body."""


def parsed(lines: Iterable[str]) -> Any:
    """The function that these lines of TVMScript define. Layers often have the same one, and TVM takes a tenth of a second for it."""
    return _parsed("\n".join(lines))


_parsed = lru_cache(maxsize=256)(from_source)


def extents(*values: int) -> str:
    """In 64 bits, as those of the functions that TVM makes of operators."""
    return ", ".join(f"T.int64({value})" for value in values)


def loops(block: str, axes: Sequence[str], sizes: Sequence[int], body: Sequence[str], kinds: str = "") -> Iterator[str]:
    """A block in loops over its axes. Their kinds are TVM's, S or R; by default all are spatial. In the body the axis `n` is `vn`."""
    names, values = ", ".join(axes), ", ".join(f"v{axis}" for axis in axes)
    yield f"    for {names} in T.grid({extents(*sizes)}):"
    yield f'        with T.sblock("{block}"):'
    yield f'            {values} = T.axis.remap("{kinds or "S" * len(axes)}", [{names}])'
    yield from (indent(line, INSIDE) for line in body)


def sum_of_products(total: str, factors: tuple[str, str], dtype: str) -> list[str]:
    """The body of a block that sums products, of elements written as in TVMScript."""
    data, weight = factors
    return [
        f"T.reads({data}, {weight})",
        f"T.writes({total})",
        "with T.init():",
        f"    {total} = T.{dtype}(0)",
        f"{total} = {total} + {data} * {weight}",
    ]


class Edges(NamedTuple):
    """How many zeros are put before and after the data along an axis."""

    before: int
    inputs: int
    after: int


def padding(axes: Mapping[str, int | Edges], dtype: str) -> Iterator[str]:
    """Blocks that copy `x`, of these axes, to `padded`. Axes without edges have a size only."""
    edges = {axis: one for axis, one in axes.items() if isinstance(one, Edges)}
    sizes = [sum(one) if isinstance(one, Edges) else one for one in axes.values()]
    at = {axis: f"v{axis} - {edges[axis].before}" if axis in edges else f"v{axis}" for axis in axes}
    inside = " and ".join(f"0 <= {at[axis]} and {at[axis]} < {one.inputs}" for axis, one in edges.items())
    x, padded = f"x[{', '.join(at.values())}]", f"padded[{', '.join(f'v{axis}' for axis in axes)}]"
    yield f'    padded = T.sblock_alloc_buffer(({extents(*sizes)}), "{dtype}")'
    body = [f"T.reads({x})", f"T.writes({padded})", f"{padded} = T.if_then_else({inside}, {x}, T.{dtype}(0))"]
    yield from loops("pad", list(axes), sizes, body)


def fixed_shape(tensor: Any, *dtypes: str) -> tuple[int, ...] | None:
    """Of a tensor in one of these types; None if it is in another one, or has no fixed shape."""
    extents = getattr(tensor.ty.shape, "values", None)
    if str(tensor.ty.dtype) not in dtypes or extents is None or not all(hasattr(one, "value") for one in extents):
        return None
    return tuple(map(int, extents))


def keep(schedule: Any, *kept: Any) -> None:
    """Have TVM leave the loops as they are: it would vectorize or parallelize them again unless they are annotated."""
    for loop in kept:
        schedule.annotate(loop, "pragma_unroll_explicit", 1)


def last_after(schedule: Any, block: Any) -> Any:
    """The function's last block, with all between the two inlined into it. Several may read the same, as in x · sigmoid(x)."""
    while between := [one for one in schedule.get_consumers(block) if schedule.get_consumers(one)]:
        schedule.compute_inline(between[0])
    (last,) = schedule.get_consumers(block)
    return last


def with_calls_replaced(
    mod: IRModule, replacement: Callable[[relax.Call, relax.BlockBuilder], Any], name: str = "main"
) -> IRModule:
    """The network with what replaces each call of a function, unless that is None; the same one if nothing is replaced. Functions are added to the builder."""
    replacing = _Replacing(mod, replacement)
    function = replacing.visit_expr(mod[name])
    if not replacing.replaced:
        return mod
    replacing.builder_.update_func(mod.get_global_var(name), function)
    return replacing.builder_.get()


@relax.expr_functor.mutator
class _Replacing(relax.PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: IRModule, replacement: Callable[[relax.Call, relax.BlockBuilder], Any]) -> None:
        super().__init__(mod)
        self._replacement = replacement
        self.replaced = 0

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        """TVM's name."""
        call = super().visit_call_(call)
        replacement = self._replacement(call, self.builder_)
        if replacement is None:
            return call
        self.replaced += 1
        return replacement
