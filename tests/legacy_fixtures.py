"""The interpreter with an older TVM, under which auto_scheduler and AutoTVM run."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.other_pythons import CannotMake, made, named_or_made

ONNX = ("onnx==1.11.0; python_version < '3.10'", "onnx==1.12.0; python_version >= '3.10'", "protobuf<3.21")
PACKAGES = ("hhb-tvm==2.11.4", "xgboost==1.5.2", "numpy<2", *ONNX, "tqdm", "tflite", "pytest")
"""TVM 0.9, what its relay needs without saying so, and what reads ONNX files."""
PYTHONS = ("3.8", "3.10")
"""The versions that there are wheels for."""


@pytest.fixture(scope="session")
def legacy_python() -> str:
    return named_or_made(
        "TUNEBOARD_TEST_LEGACY_PYTHON",
        "NOTHING WAS RUN UNDER AN OLDER TVM",
        lambda: made("older-tvm", PACKAGES, _python),
    )


def _python() -> str:
    for found in _candidates():
        # A shim of pyenv's may stand for a version that isn't installed.
        if subprocess.run([found, "-c", "import venv"], capture_output=True, check=False).returncode == 0:
            return found
    raise CannotMake(f"there is no Python {' or '.join(PYTHONS)}")


def _candidates() -> Iterator[str]:
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for version in PYTHONS:
        yield from filter(None, [shutil.which(f"python{version}")])
        yield from (str(found) for found in sorted(pyenv.glob(f"{version}.*/bin/python")))
