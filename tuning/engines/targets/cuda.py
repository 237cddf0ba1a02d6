"""The compiler of CUDA C++ that TVM uses on this machine."""

from __future__ import annotations

import importlib.util
import os
import shutil

MODE = "TVM_CUDA_COMPILE_MODE"


def compiler() -> str | None:
    """`nvrtc` (from the package cuda-python) or `nvcc`, as TVM calls them; None if there is neither."""
    if asked := os.environ.get(MODE):
        return asked
    if importlib.util.find_spec("cuda") and importlib.util.find_spec("cuda.bindings"):
        return "nvrtc"
    return "nvcc" if shutil.which("nvcc") else None


def choose_compiler() -> None:
    """Make TVM use the compiler that there is, in this process and its children: by itself it tries only NVRTC."""
    if found := compiler():
        os.environ[MODE] = found
