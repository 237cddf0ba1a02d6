"""The interpreter with an older TVM, under which auto_scheduler and AutoTVM run. It is made once, under a cache folder of the user's."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ONNX = ("onnx==1.11.0; python_version < '3.10'", "onnx==1.12.0; python_version >= '3.10'", "protobuf<3.21")
PACKAGES = ("hhb-tvm==2.11.4", "xgboost==1.5.2", "numpy<2", *ONNX, "tqdm", "tflite", "pytest")
"""TVM 0.9, what its relay needs without saying so, and what reads ONNX files."""
PYTHONS = ("3.8", "3.10")
"""The versions that there are wheels for."""


class CannotMake(Exception):
    """The interpreter can't be made; the text says why."""


@pytest.fixture(scope="session")
def legacy_python() -> str:
    """Its path. Without it, what needs it is skipped; in CI it fails."""
    if named := os.environ.get("TUNEBOARD_TEST_LEGACY_PYTHON"):
        return named
    try:
        return str(_made())
    except CannotMake as why:
        reason = f"NOTHING WAS RUN UNDER AN OLDER TVM: {why}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


def _made() -> Path:
    digest = hashlib.sha256(" ".join(PACKAGES).encode()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tuneboard-tests"
    folder = cache / f"older-tvm-{digest}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Tests run in parallel.
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            _make(folder)
            (folder / "complete").touch()
    return folder / "bin" / "python"


def _make(folder: Path) -> None:
    _run([_python(), "-m", "venv", str(folder)])
    _run([str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", *PACKAGES])


def _python() -> str:
    for found in _candidates():
        # A shim of pyenv's may stand for a version that isn't installed.
        if subprocess.run([found, "-c", "import venv"], capture_output=True, check=False).returncode == 0:
            return found
    raise CannotMake(f"there is no Python {' or '.join(PYTHONS)}. TUNEBOARD_TEST_LEGACY_PYTHON can name an interpreter")


def _candidates() -> Iterator[str]:
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for version in PYTHONS:
        yield from filter(None, [shutil.which(f"python{version}")])
        yield from (str(found) for found in sorted(pyenv.glob(f"{version}.*/bin/python")))


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise CannotMake(f"{' '.join(command[:3])} failed: {' '.join(last)}")
