"""A target in a few words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def label(target: Any) -> str:
    """`this machine`, a tag, or what matters of a target's dict: kind, processor and cores."""
    if target == "this":
        return "this machine"
    if not isinstance(target, dict):
        return str(target)
    if target.get("tag"):
        return str(target["tag"])
    parts = [target.get("kind"), target.get("mcpu") or target.get("arch"), _cores(target.get("num-cores"))]
    return " · ".join(str(part) for part in parts if part)


def short(target: Any) -> str:
    """What tells one target from another in a word: its tag, processor or architecture, else its kind."""
    if not isinstance(target, dict):
        return str(target)
    words = (target.get(key) for key in ("tag", "mcpu", "arch", "kind"))
    return next((str(word) for word in words if word), "target")


def options_label(options: dict[str, Any]) -> str:
    """A network's options on one line."""
    return ", ".join(f"{name}={value}" for name, value in options.items())


def shape(arg: dict[str, Any]) -> str:
    """A tensor's shape and type as TVMScript would write them: `(1, 56, 56, 64) float32`."""
    return f"({', '.join(str(size) for size in arg['shape'])}) {arg['dtype']}"


def signature(args: Sequence[dict[str, Any]]) -> str:
    """A function's tensors on one line, the output last: `(1, 784) × (128, 784) → (1, 128) float32`."""
    if not args:
        return "arguments not recorded"
    dtypes = {arg["dtype"] for arg in args}
    alike = f" {dtypes.pop()}" if len(dtypes) == 1 else ""
    *inputs, output = [f"({', '.join(map(str, arg['shape']))})" if alike else shape(arg) for arg in args]
    return f"{' × '.join(inputs)} → {output}{alike}" if inputs else f"{output}{alike}"


def _cores(number: Any) -> str | None:
    if not number:
        return None
    return "1 core" if number == 1 else f"{number} cores"
