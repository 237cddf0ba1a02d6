"""The packages that a conversion takes."""

import importlib
import json
import os
import platform
from collections.abc import Callable
from typing import Any

NEEDED = ("torch", "onnx", "onnxscript")


class Missing(Exception):
    """A package can't be imported; the text says which and why."""


Say = Callable[[dict[str, Any]], None]


def private_stdout() -> Say:
    """Writes messages to what stdout is now, a line each. From here on, whatever else is printed goes to stderr."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(message: dict[str, Any]) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    return say


def imported(say: Say) -> dict[str, str]:
    """Import them all; returns their versions. Raises `Missing`."""
    found = {"python": platform.python_version()}
    for name in NEEDED:
        say({"type": "step", "text": f"Loading {name}"})
        try:
            found[name] = str(importlib.import_module(name).__version__)
        except Exception as error:
            raise Missing(f"{name} can't be imported: {type(error).__name__}: {error}") from error
    return found
