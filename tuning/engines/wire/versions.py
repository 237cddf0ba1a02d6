"""Checks that the installed apache-tvm and apache-tvm-ffi match: `python -m tuning.engines.wire.versions`.

Mismatched versions fail in odd ways. With apache-tvm-ffi 0.1.15, for example, creating a `TuneContext` ends in SIGSEGV.
"""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

PINS = {"apache-tvm": "0.27.0.post1", "apache-tvm-ffi": "0.1.14.post1"}
"""The versions that Tuneboard is tested with, as requirements.txt installs them."""
FIX = "Install matching versions: pip install -r requirements.lock"


def problem() -> str | None:
    """What is wrong with the installed versions and how to fix it, or None."""
    found = {name: installed(name) for name in PINS}
    if found == PINS:
        return None
    wrong = [
        f"{name} {found[name]} is installed, but Tuneboard needs {pin}" if found[name] else f"{name} isn't installed"
        for name, pin in PINS.items()
        if found[name] != pin
    ]
    return f"{'; '.join(wrong)}. {FIX}"


def installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def in_use() -> dict[str, str]:
    """The versions, by package name, that affect a run's results."""
    found = {name: installed(name) for name in (*PINS, "xgboost-cpu", "xgboost")}
    return {"python": platform.python_version(), **{name: value for name, value in found.items() if value}}


if __name__ == "__main__":
    sys.exit(problem())
