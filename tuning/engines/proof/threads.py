"""The threads that TVM runs a whole network on."""

import os
from typing import Any, Mapping, Optional

NUMBER, BINDING = "TVM_NUM_THREADS", "TVM_BIND_THREADS"
"""The environment variables that say how many threads TVM uses in a process, and whether each is bound to a core."""


def cores_of(target: Mapping[str, Any]) -> int:
    """How many the resolved target has, or this machine if it doesn't say."""
    return int(target.get("num-cores") or os.cpu_count() or 1)


def run_network_on(threads: Optional[int]) -> None:
    """Have TVM use so many threads in this process, or its own number of them. Call it before TVM's runtime first runs anything.

    By itself TVM uses half of the logical cores of an x86 CPU, and binds each of its worker threads to a core. When another process needs that core,
    all wait for its worker: for seconds, if both are of one session, because a worker that waits yields 300,000 times and Linux 6.18 takes
    each of these for a turn forgone. Threads that aren't bound move to another core.
    """
    if threads is not None:
        os.environ[NUMBER] = str(threads)
    os.environ[BINDING] = "0"
