"""How many threads a process that measures uses."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any


def use_cores(target: Mapping[str, Any]) -> int:
    """Have TVM use as many threads as the resolved target has cores, and return how many. Call it before TVM's runtime first runs anything.

    By itself TVM uses half of the logical cores of an x86 CPU.
    """
    threads = int(target.get("num-cores") or os.cpu_count() or 1)
    os.environ["TVM_NUM_THREADS"] = str(threads)
    return threads
