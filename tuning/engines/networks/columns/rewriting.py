"""A network whose constant matrices have whole vectors of columns, as tiles of a CPU's registers take.

GPT-2 knows 50,257 words, for example, and a classifier 1,001 classes. No vector divides either, so TVM computes one column at a time.
"""

from __future__ import annotations

import numpy as np
from tvm import IRModule, relax
from tvm.ir import GenericConst

from tuning.engines.networks.tensorir import fixed_shape, with_calls_replaced
from tuning.engines.targets.registers import Registers

from .functions import Widened, function

MOST = 1.125
"""Columns, at most, compared with what they were."""


def in_whole_vectors(mod: IRModule, registers: Registers) -> IRModule:
    """The network with functions in place of products with such matrices in float32; the same one if it has none."""

    def replacement(call: relax.Call, builder: relax.BlockBuilder) -> relax.Expr | None:
        if (product := widened(call, registers)) is None:
            return None
        data, matrix = call.args
        weights = np.pad(matrix.value.numpy(), [(0, 0), (0, product.whole - product.columns)])
        made = builder.add_func(function(product), "matmul_in_vectors")
        return relax.call_tir(made, [data, relax.const(weights, "float32")], call.ty)

    return with_calls_replaced(mod, replacement)


def widened(call: relax.Call, registers: Registers) -> Widened | None:
    """The product that the call is, if its matrix should have more columns."""
    if str(getattr(call.op, "name", "")) != "relax.matmul":
        return None
    data, matrix = call.args
    given, made = fixed_shape(data, "float32"), fixed_shape(call, "float32")
    if given is None or made is None or len(given) < 2 or not isinstance(matrix, GenericConst):
        return None
    shape = fixed_shape(matrix, "float32")
    if shape is None or len(shape) != 2 or shape[1] % registers.lanes == 0:
        return None
    *outer, rows, inputs = given
    whole = registers.whole(rows, shape[1], int(MOST * shape[1]))
    return Widened(tuple(outer), rows, inputs, shape[1], whole) if whole else None
