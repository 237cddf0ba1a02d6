"""The interpreter with an old TVM, and its engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .legacy_running import Legacy


@pytest.fixture(params=["auto_scheduler", "autotvm"])
def legacy(request: Any, legacy_python: str, tmp_path: Path) -> Legacy:
    """Each engine in turn."""
    return Legacy(legacy_python, request.param, tmp_path)


@pytest.fixture
def autotvm(legacy_python: str, tmp_path: Path) -> Legacy:
    return Legacy(legacy_python, "autotvm", tmp_path)


@pytest.fixture
def auto_scheduler(legacy_python: str, tmp_path: Path) -> Legacy:
    return Legacy(legacy_python, "auto_scheduler", tmp_path)
