"""What becomes of a candidate: it has a latency, or it failed. No TVM here."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tuning.engines.wire.protocol import ErrorKind

LEAST_FREE = 4 << 20
"""Bytes that must be free on the disk with what is built. With less, a build may fail without being to blame."""


@dataclass(frozen=True)
class Timing:
    """Seconds per execution, for each repeat; for each lap if the measurement was `short`."""

    run_secs: list[float]
    short: bool = False
    used_s: float | None = field(default=None, compare=False)
    """How long the device was used, in seconds, where that isn't as long as the caller waited."""


@dataclass(frozen=True)
class Failure:
    """Why a trial has no latency."""

    kind: ErrorKind
    text: str


@dataclass(frozen=True)
class WorkerError:
    """The text of an exception in a worker, since TVM's exceptions can't be pickled."""

    text: str


class Runner(Protocol):
    """Measures built candidates."""

    def run(self, path: Path, device_type: str, args_info: list[Any], limit_s: float | None) -> Timing | Failure:
        """Measure and delete the artifact. Above `limit_s`, measure briefly only, where that saves time."""
