"""Where real logs are, which aren't part of the project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
FOLDER = Path(os.environ.get("TUNEBOARD_SHARED_LOGS", CHECKOUT.parent / "shared" / "data" / "logs"))
needed = pytest.mark.skipif(
    not (FOLDER / "expected.json").exists(),
    reason=f"there are no real logs in {FOLDER}; TUNEBOARD_SHARED_LOGS names their folder",
)
