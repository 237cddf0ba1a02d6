"""What a child process that reads uploads finds around it: few environment variables, and an empty working directory."""

from __future__ import annotations

import os
from pathlib import Path

from django.conf import settings

VARIABLES = frozenset(("HOME", "LANG", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "TZ", "VIRTUAL_ENV"))
FAMILIES = ("CUDA_", "GOMP_", "KMP_", "LC_", "NVIDIA_", "OMP_", "OPENBLAS_", "PYTHON", "TVM_", "VTA_", "ZIG_")
"""How the names of further variables begin that Python, TVM, its compilers and its thread pools read."""


def environment() -> dict[str, str]:
    """The environment of TVM's processes: without the site's secrets, such as SECRET_KEY and DATABASE_URL."""
    kept = {name: value for name, value in os.environ.items() if name in VARIABLES or name.startswith(FAMILIES)}
    sources = [str(settings.BASE_DIR), *filter(None, [kept.get("PYTHONPATH")])]
    return {**kept, "PYTHONPATH": os.pathsep.join(sources), "PYTHONUNBUFFERED": "1"}


def folder() -> Path:
    """Where they run. A relative path in an uploaded file leads to nothing."""
    empty: Path = settings.VAR / "empty"
    empty.mkdir(exist_ok=True)
    return empty
