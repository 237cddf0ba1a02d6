"""What compiles CUDA C++ for TVM on this machine."""

from __future__ import annotations

import importlib.util
import os
import shutil

MODE = "TVM_CUDA_COMPILE_MODE"


def compiler() -> str | None:
    """`nvrtc` (of the package cuda-python) or `nvcc`, as TVM calls them; None when there is neither."""
    if asked := os.environ.get(MODE):
        return asked
    if importlib.util.find_spec("cuda") and importlib.util.find_spec("cuda.bindings"):
        return "nvrtc"
    return "nvcc" if shutil.which("nvcc") else None


def choose_compiler() -> None:
    """Have TVM use what there is, in this process and those it starts: it tries NVRTC only."""
    if found := compiler():
        os.environ[MODE] = found
