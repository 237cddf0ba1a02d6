"""Has a network inspected in a process of its own: nothing that a file does reaches this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tuning.engines.wire.inspecting import Inspected, Question
from tuning.engines.wire.protocol import NetworkSpec
from tuning.host import sandbox


def inspect(
    network: NetworkSpec, target: dict[str, Any] | None = None, on_step: Callable[[str], bool] = lambda _step: True
) -> Inspected:
    """The network's inputs, operators and tasks for a resolved target, or for none.

    `on_step` hears what goes on, and stops it by False. Raises `Refused` with the reason in words, and `Abandoned`.
    """
    question = Question(network=network, target=target, **sandbox.limits())
    return sandbox.ask_once("tuning.engines.oneshot.inspecting", question, Inspected, on_step)


def summary(found: Inspected) -> dict[str, Any]:
    """What a network keeps of its inspection."""
    return {
        "inputs": [{"name": one.name, "shape": one.shape, "dtype": one.dtype} for one in found.inputs],
        "parameters": found.parameters,
        "operators": found.operators,
        "flop": sum(task.flop * task.weight for task in found.tasks),
    }
