"""What machines do at best, in words."""

from __future__ import annotations

from dashboard.presentation import units
from tuning.reads.machines.rooflines import RooflineDict
from tuning.wording import SPACE


def at_best(one: RooflineDict) -> str:
    """As in `121 GFLOPS · 390 GB/s on 32 KiB, 15.2 GB/s on 256 MiB`."""
    ends = one["bandwidths"][0], one["bandwidths"][-1]
    moved = ", ".join(
        f"{_giga(rate)}B/s on {units.bytes_label(int(size))}" for size, rate in dict.fromkeys(map(tuple, ends))
    )
    return f"{_giga(one['flops'])}FLOPS · {moved}"


def _giga(rate: float) -> str:
    return f"{units.gflops(rate / 1e9)}{SPACE}G"
