"""Inspects networks in a sandboxed process, so that nothing a model's file does reaches this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tuning.engines.wire.inspecting import Inspected, Question
from tuning.engines.wire.protocol import NetworkSpec
from tuning.host import sandbox


def inspect(
    network: NetworkSpec, target: dict[str, Any] | None = None, on_step: Callable[[str], bool] = lambda _step: True
) -> Inspected:
    """The network's inputs, operators and tasks for a resolved target, or for any target.

    `on_step` hears what the process is doing, and stops it by returning False. Raises `Refused` with the reason, and `Abandoned`.
    """
    question = Question(network=network, target=target, **sandbox.limits())
    return sandbox.ask_once("tuning.engines.oneshot.inspecting", question, Inspected, on_step)


def summary(found: Inspected) -> dict[str, Any]:
    """What is stored of it with the network."""
    return {
        "inputs": [{"name": one.name, "shape": one.shape, "dtype": one.dtype} for one in found.inputs],
        "parameters": found.parameters,
        "operators": found.operators,
        "flop": sum(task.flop * task.weight for task in found.tasks),
    }
