"""How a candidate is measured, and what becomes of it: it has a latency, or it failed. No TVM here."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tuning.engines.wire.protocol import ErrorKind

LEAST_FREE = 4 << 20
"""Bytes that must be free on the disk with what is built. With less, a build may fail without being to blame."""


class Evaluation(NamedTuple):
    """How to measure a candidate on this machine."""

    config: tuple[int, int, int]
    """Number, repeat, min_repeat_ms."""
    limit_s: float | None = None
    """The limit of its race; None means no race."""
    cold_bytes: int = 0
    """How many bytes are touched between two uses of the candidate's weights, these among them; 0 if they are to be in the caches."""


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

    @property
    def was_built(self) -> bool:
        """Whether it failed only when it ran. TVM trains its cost model with such candidates, too."""
        return self.kind not in ("build", "build_timeout")


@dataclass(frozen=True)
class WorkerError:
    """The text of an exception in a worker, since TVM's exceptions can't be pickled."""

    text: str


class Runner(Protocol):
    """Measures built candidates."""

    def run(
        self, path: Path, device_type: str, args_info: list[Any], limit_s: float | None, cold_bytes: int
    ) -> Timing | Failure:
        """Measure and delete the artifact. Above `limit_s`, measure briefly only, where that saves time. `cold_bytes` are as in `Evaluation`."""
