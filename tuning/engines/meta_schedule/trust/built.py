"""A built candidate. No TVM here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Built:
    """An artifact, and what a runner needs besides. `device` is a type of TVM's; `args` are plain values; `cold_bytes` as in `Evaluation`."""

    path: Path
    device: str
    args: list[Any]
    cold_bytes: int = 0
