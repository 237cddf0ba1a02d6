"""Where the stand-in's bitstreams are."""

from __future__ import annotations

import os
from pathlib import Path


def get_bitstream_path() -> str:
    return str(Path(os.environ["VTA_CACHE_PATH"]) / "stand_in.bit")
