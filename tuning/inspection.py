"""Has a network inspected in a process of its own: nothing that a file does reaches this process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

from . import limited
from .engines.inspecting import Inspected, Question
from .engines.protocol import NetworkSpec


def inspect(
    network: NetworkSpec, target: dict[str, Any] | None = None, on_step: Callable[[str], bool] = lambda _step: True
) -> Inspected:
    """The network's inputs, operators and tasks for a resolved target, or for none.

    `on_step` hears what goes on, and stops it by False. Raises `Refused` with the reason in words, and `Abandoned`.
    """
    question = Question(network=network, target=target, **limited.limits())
    with closing(limited.ask("tuning.engines.inspecting", question, Inspected, on_step)) as answers:
        return next(answers)
