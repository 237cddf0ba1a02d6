"""What candidates are measured on."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

FILL = "tvm.contrib.random.random_fill_for_measure"
"""TVM's function, which a device elsewhere has as well."""

_INDEX = re.compile(r"u?int(32|64)$|bool$")


def allocated(random_fill: Callable[[Any], None], device: Any, args_info: list[Any]) -> Any:
    """A tensor for each argument, as TVM's evaluators take them: random numbers, and zeros where those may be indices.

    TVM's own allocation fills whole numbers with the bits of floating-point ones. A lookup in a table, as the
    embedding of words is one, reads far outside of it then: every trial ends by SIGSEGV.
    """
    from tvm.s_tir.meta_schedule.runner.utils import alloc_argument_common

    def fill(tensor: Any) -> None:
        if _INDEX.match(str(tensor.dtype)):
            tensor.copyfrom(np.zeros(tensor.shape, str(tensor.dtype)))
        else:
            random_fill(tensor)

    return alloc_argument_common(fill, device, args_info, 1)
