"""How many threads a process that measures uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuning.engines.proof.threads import cores_of, run_network_on


def use_cores(target: Mapping[str, Any]) -> int:
    """Have TVM use as many threads as the resolved target has cores, and return how many. See `run_network_on`."""
    threads = cores_of(target)
    run_network_on(threads)
    return threads
