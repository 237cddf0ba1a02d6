"""Whether the installed apache-tvm and apache-tvm-ffi belong together. `python -m tuning.engines.wire.versions` says so.

With another pair TVM fails in odd ways: with apache-tvm-ffi 0.1.15 making any tuning context ends in SIGSEGV.
"""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

PINS = {"apache-tvm": "0.27.0.post1", "apache-tvm-ffi": "0.1.14.post1"}
"""The pair that Tuneboard is tested with; requirements.txt installs it."""
FIX = "Install the pair that belongs together: pip install -r requirements.lock"


def problem() -> str | None:
    """What is wrong with the installed pair and how to fix it, or None."""
    found = {name: installed(name) for name in PINS}
    if found == PINS:
        return None
    wrong = [
        f"{name} {found[name]} is installed, and Tuneboard needs {pin}" if found[name] else f"{name} isn't installed"
        for name, pin in PINS.items()
        if found[name] != pin
    ]
    return f"{'; '.join(wrong)}. {FIX}"


def installed(name: str) -> str | None:
    """A package's installed version, or None."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def in_use() -> dict[str, str]:
    """Versions of what decides a run's result."""
    found = {name: installed(name) for name in (*PINS, "xgboost-cpu", "xgboost")}
    return {"python": platform.python_version(), **{name: value for name, value in found.items() if value}}


if __name__ == "__main__":
    sys.exit(problem())
