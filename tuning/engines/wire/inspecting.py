"""Networks: what `tuning.engines.oneshot.inspecting` is asked, and what it answers."""

from __future__ import annotations

from typing import Any

import msgspec

from . import question
from .protocol import NetworkSpec, TaskInfo, TensorInfo


class Question(question.Question, frozen=True):
    network: NetworkSpec
    target: dict[str, Any] | None
    """As resolved; None for any target, which is enough to count operations."""

    def reach(self) -> question.Reach:
        return question.Reach(reads=self.network.paths())


class Inspected(msgspec.Struct, tag="inspected", frozen=True):
    """A network that can be tuned."""

    inputs: list[TensorInfo]
    parameters: int
    operators: dict[str, int]
    """Occurrences by name: ONNX's names for an ONNX file, otherwise Relax's."""
    tasks: list[TaskInfo]
