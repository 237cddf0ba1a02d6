"""The interpreter with PyTorch, which converts programs of `torch.export`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.other_pythons import made, named_or_made

PACKAGES = ("torch==2.13.0", "onnx==1.23.2", "onnxscript==0.7.2")


@pytest.fixture(scope="session")
def torch_python() -> str:
    return named_or_made(
        "TUNEBOARD_TEST_TORCH_PYTHON",
        "NOTHING WAS CONVERTED BY PYTORCH",
        lambda: made("torch", PACKAGES, lambda: sys.executable),
    )


@pytest.fixture
def with_torch(settings: Any, torch_python: str) -> None:
    """The site has that interpreter."""
    settings.TORCH_PYTHON = Path(torch_python)
