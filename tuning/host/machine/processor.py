"""This machine's processors: how they are set, how fast they run and how hot they are.

Linux tells it in files below /sys. What a virtual machine, a container or another system doesn't tell is None. The frequency in
/proc/cpuinfo isn't used: in virtual machines it is one that never changes.
"""

from __future__ import annotations

import platform
import re
from contextlib import suppress
from pathlib import Path
from statistics import fmean

import psutil
from typing_extensions import TypedDict

CPUS = Path("/sys/devices/system/cpu")
CPUINFO = Path("/proc/cpuinfo")
OF_THE_CPU = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "cpu-thermal", "soc_thermal")
"""Linux's names of the sensors that are within the processors."""


class Processor(TypedDict):
    """What may differ between two sessions on a machine; None is what it doesn't tell."""

    model: str | None
    cpus: int | None
    """Processors that the kernel schedules on; with SMT, a core has several."""
    governor: str | None
    """Of frequencies, such as `performance`; several are joined by commas."""
    turbo: bool | None
    smt: bool | None
    kernel: str


class Clock(TypedDict):
    """Frequencies in MHz, over all processors, and the highest temperature of a processor in °C; None is what the machine doesn't tell."""

    mhz: float | None
    least_mhz: float | None
    celsius: float | None


def processor(cpus: Path = CPUS, cpuinfo: Path = CPUINFO) -> Processor:
    """How the processors are set now."""
    governors = sorted({governor for path in _of_each(cpus, "scaling_governor") if (governor := _text(path))})
    return {
        "model": _model(cpuinfo),
        "cpus": psutil.cpu_count(),
        "governor": ", ".join(governors) or None,
        "turbo": _turbo(cpus),
        "smt": _flag(cpus / "smt" / "active"),
        "kernel": platform.release(),
    }


def clock(cpus: Path = CPUS) -> Clock:
    """How fast and hot the processors are now."""
    khz = [float(text) for path in _of_each(cpus, "scaling_cur_freq") if (text := _text(path)) and text.isdecimal()]
    return {
        "mhz": round(fmean(khz) / 1000) if khz else None,
        "least_mhz": round(min(khz) / 1000) if khz else None,
        "celsius": _celsius(),
    }


def _of_each(cpus: Path, name: str) -> list[Path]:
    return sorted(cpus.glob(f"cpu[0-9]*/cpufreq/{name}"))


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None


def _flag(path: Path) -> bool | None:
    text = _text(path)
    return text == "1" if text in ("0", "1") else None


def _turbo(cpus: Path) -> bool | None:
    """Intel's driver tells whether it is off, others whether it is on."""
    is_off = _flag(cpus / "intel_pstate" / "no_turbo")
    return _flag(cpus / "cpufreq" / "boost") if is_off is None else not is_off


def _model(cpuinfo: Path) -> str | None:
    found = re.search(r"^model name\s*:\s*(.+)$", _text(cpuinfo) or "", re.MULTILINE)
    return found[1].strip() if found else None


def _celsius() -> float | None:
    sensors = {}
    if hasattr(psutil, "sensors_temperatures"):
        with suppress(OSError, ValueError):
            sensors = psutil.sensors_temperatures()
    told = [one.current for name in OF_THE_CPU for one in sensors.get(name, ()) if one.current]
    return round(max(told), 1) if told else None
