"""How busy this machine is, and with whose work."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil
from typing_extensions import TypedDict

from .ours import families
from .processor import Clock, Processor, clock, processor

IDLE = ("idle", "iowait", "guest", "guest_nice")
"""Columns of the CPU's times that aren't work, or are counted in others already."""


class Load(TypedDict):
    """A machine's load. Bytes; the averages are of runnable processes over 1, 5 and 15 minutes, as the kernel counts them."""

    average: list[float]
    memory_free: int
    disk_free: int
    """In the data folder."""
    disk_total: int
    cpus: int
    """Processors that the kernel schedules on; a core with hyperthreads has two."""
    ours_cores: float | None
    """How many of them our processes used, on average since the last sample; None in the first one."""
    others_cores: float | None
    """How many of them other processes used."""
    clock: Clock
    processor: Processor


class Sampler:
    """Takes samples of the load of a site's machine, in the process whose children work for it. `folder` is its data folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last: tuple[float, float, dict[int, float]] | None = None

    def sample(self) -> Load:
        disk = psutil.disk_usage(str(self._folder))
        ours, others = self._used()
        return {
            "average": [round(one, 2) for one in os.getloadavg()],
            "memory_free": psutil.virtual_memory().available,
            "disk_free": disk.free,
            "disk_total": disk.total,
            "cpus": psutil.cpu_count() or 1,
            "ours_cores": ours,
            "others_cores": others,
            "clock": clock(),
            "processor": processor(),
        }

    def _used(self) -> tuple[float, float] | tuple[None, None]:
        """Processors that our processes used, and others'."""
        now, worked = time.monotonic(), _worked()
        spent = {family[0].pid: _spent(family) for family in families(self._folder)}
        last, self._last = self._last, (now, worked, spent)
        if last is None or now <= last[0]:
            return None, None
        # A process that ended unseen leaves its time with whoever waited for it, so a family's can't shrink by much.
        ours = sum(max(0.0, seconds - last[2].get(pid, 0.0)) for pid, seconds in spent.items())
        others = max(0.0, worked - last[1] - ours)
        return round(ours / (now - last[0]), 2), round(others / (now - last[0]), 2)


def disk_free(folder: Path) -> int:
    """Bytes that may be written there."""
    return int(psutil.disk_usage(str(folder)).free)


def _worked() -> float:
    """CPU seconds that all cores together have worked."""
    times = psutil.cpu_times()
    return float(sum(value for name, value in times._asdict().items() if name not in IDLE))


def _spent(processes: Iterable[psutil.Process]) -> float:
    """CPU seconds of the processes and of those of their children that have ended."""
    total = 0.0
    for process in processes:
        with suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
            total += getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
    return total
