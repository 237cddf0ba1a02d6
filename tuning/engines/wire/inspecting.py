"""What `tuning.engines.oneshot.inspecting` is asked, and what it answers."""

from __future__ import annotations

from typing import Any

import msgspec

from . import question
from .protocol import NetworkSpec, TaskInfo, TensorInfo


class Question(question.Question, frozen=True):
    """Which network to look at, and for which target."""

    network: NetworkSpec
    target: dict[str, Any] | None
    """As resolved; None for one that serves to count operations."""


class Inspected(msgspec.Struct, tag="inspected", frozen=True):
    """A network that can be tuned."""

    inputs: list[TensorInfo]
    parameters: int
    operators: dict[str, int]
    """How often each occurs: ONNX's names for an ONNX file, Relax's else."""
    tasks: list[TaskInfo]
