"""A network's options and a task's tensors on one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tuning.models import Task
from tuning.schedules.packed import unpacked


def options_label(options: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items())


def shape(arg: dict[str, Any]) -> str:
    """A tensor's shape and dtype: `(1, 56, 56, 64) float32`. Without the dtype if it isn't recorded."""
    return f"({', '.join(str(size) for size in arg['shape'])}) {arg['dtype'] or ''}".rstrip()


def unpacked_words(task: Task) -> str:
    """What the task's packed operator is without its packing; empty if it isn't packed."""
    packed = unpacked(task.name, task.args)
    return packed.words if packed else ""


def signature(args: Sequence[dict[str, Any]]) -> str:
    """A function's tensors, the output last: `(1, 784) × (128, 784) → (1, 128) float32`."""
    if not args:
        return "arguments not recorded"
    dtypes = {arg["dtype"] for arg in args}
    alike = f" {dtypes.pop() or ''}".rstrip() if len(dtypes) == 1 else ""
    *inputs, output = [f"({', '.join(map(str, arg['shape']))})" if alike else shape(arg) for arg in args]
    return f"{' × '.join(inputs)} → {output}{alike}" if inputs else f"{output}{alike}"
