"""Interpreters with packages that ours hasn't. Each is made once, under a cache folder of the user's."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest


class CannotMake(Exception):
    """The interpreter can't be made; the text says why."""


def named_or_made(variable: str, otherwise: str, make: Callable[[], Path]) -> str:
    """Its path. Without it, what needs it is skipped; in CI it fails. `otherwise` is said then."""
    if named := os.environ.get(variable):
        return named
    try:
        return str(make())
    except CannotMake as why:
        reason = f"{otherwise}: {why}. {variable} can name an interpreter"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


def made(name: str, packages: Sequence[str], python: Callable[[], str]) -> Path:
    """An environment with the packages, of the Python that `python` finds. Raises `CannotMake`."""
    digest = hashlib.sha256(" ".join(packages).encode()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tuneboard-tests"
    folder = cache / f"{name}-{digest}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"lock-{name}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Tests run in parallel.
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            _run([python(), "-m", "venv", str(folder)])
            _run([str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", *packages])
            (folder / "complete").touch()
    return folder / "bin" / "python"


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise CannotMake(f"{' '.join(command[:3])} failed: {' '.join(last)}")
