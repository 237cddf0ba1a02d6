"""Networks: what `tuning.engines.oneshot.inspecting` and `tuning.engines.oneshot.listing.operators` are asked, and what they answer."""

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


class ListOperators(question.Question, frozen=True):
    """Asks for the operators that uploaded models may have."""


class OnnxOperator(msgspec.Struct, frozen=True):
    name: str
    lowered: str | None = None
    """If Tuneboard lowers it before TVM's importer sees it: with which limits."""


class Operators(msgspec.Struct, tag="operators", frozen=True):
    """Sorted by name."""

    onnx: list[OnnxOperator]
    relax: list[str]
    """Without `relax.` before the name."""
