"""Matrix products whose weights have more columns than their output, as TensorIR."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tuning.engines.networks.tensorir import extents, loops, parsed, sum_of_products


class Widened(NamedTuple):
    """A product of data (…, rows, inputs) with a matrix of weights (inputs, columns) in float32."""

    outer: tuple[int, ...]
    """The data's other axes."""
    rows: int
    inputs: int
    columns: int
    whole: int
    """How many columns the weights have, whole vectors."""


def function(product: Widened) -> Any:
    """The product of data with its widened weights, without what is added. Elementwise functions may be fused after it."""
    return parsed(_source(product))


def _source(product: Widened) -> Iterator[str]:
    outer = {f"b{nth}": extent for nth, extent in enumerate(product.outer)}
    spatial = {**outer, "i": product.rows, "j": product.whole}
    at = ", ".join(f"v{axis}" for axis in spatial)
    data, weight = f"x[{', '.join([*(f'v{axis}' for axis in outer), 'vi', 'vk'])}]", "weights[vk, vj]"
    yield "# from tvm.script import tirx as T"
    yield "@T.prim_func(private=True, s_tir=True)"
    yield (
        f"def matmul(x: {_buffer(*product.outer, product.rows, product.inputs)}, "
        f"weights: {_buffer(product.inputs, product.whole)}, "
        f"y: {_buffer(*product.outer, product.rows, product.columns)}):"
    )
    # As a function whose outputs elementwise ones may be fused with: TVM can't tell from the blocks.
    yield '    T.func_attr({"tirx.noalias": True, "op_pattern": 4})'
    yield f'    sums = T.sblock_alloc_buffer(({extents(*spatial.values())}), "float32")'
    body = sum_of_products(f"sums[{at}]", (data, weight), "float32")
    yield from loops("sum", [*spatial, "k"], [*spatial.values(), product.inputs], body, "S" * len(spatial) + "R")
    body = [f"T.reads(sums[{at}])", f"T.writes(y[{at}])", f"y[{at}] = sums[{at}]"]
    yield from loops("matmul", list(spatial), [*product.outer, product.rows, product.columns], body)


def _buffer(*shape: int) -> str:
    return f'T.Buffer(({extents(*shape)}), "float32")'
