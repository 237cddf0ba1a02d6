"""The arguments that candidates are measured with."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

RANDOM_FILL = "tvm.contrib.random.random_fill_for_measure"
"""TVM's function, which remote devices have as well."""

WEIGHTS = "WEIGHTS"
"""The kind of a tensor that the network has as a constant, in place of TVM's `TENSOR`."""
FREE_LAYOUTS = "layout_free_buffers"
"""The attribute in which TVM keeps which of a function's arguments are weights."""
_MAYBE_INDEX = re.compile(r"u?int(32|64)$|bool$")


def described(candidate: Any) -> list[tuple[str, str, list[int]]]:
    """Kinds, data types and shapes of the arguments of TVM's candidate, as plain values."""
    attributes = candidate.sch.mod["main"].attrs
    weights = set(map(int, attributes.get(FREE_LAYOUTS, ()))) if attributes else set()
    return [
        (WEIGHTS if nth in weights else kind, dtype, shape)
        for nth, (kind, dtype, shape) in enumerate(plain(candidate.args_info))
    ]


def plain(args_info: Any) -> list[tuple[str, str, list[int]]]:
    """TVM's arguments' kinds, data types and shapes as plain values."""
    infos = (info.as_json() for info in args_info)
    return [(str(kind), str(dtype), [int(extent) for extent in shape]) for kind, dtype, shape in infos]


def allocated(random_fill: Callable[[Any], None], device: Any, args_info: list[Any]) -> Any:
    """A tensor per argument, as TVM's evaluators take them: zeros if it may hold indices, else random numbers.

    TVM would fill integers with the bits of floating-point numbers. Used as indices, for example of an embedding table,
    they are so far out of bounds that every trial ends in SIGSEGV.
    """
    from tvm.s_tir.meta_schedule.runner.utils import alloc_argument_common

    def fill(tensor: Any) -> None:
        if _MAYBE_INDEX.match(str(tensor.dtype)):
            tensor.copyfrom(np.zeros(tensor.shape, str(tensor.dtype)))
        else:
            random_fill(tensor)

    tensors = [("TENSOR" if kind == WEIGHTS else kind, *rest) for kind, *rest in args_info]
    return alloc_argument_common(fill, device, tensors, 1)
