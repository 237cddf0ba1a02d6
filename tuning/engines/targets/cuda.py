"""The compiler of CUDA C++ that TVM uses on this machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tuning.engines.wire.compiling import cuda_tool, has_nvrtc

MODE = "TVM_CUDA_COMPILE_MODE"


def compiler() -> str | None:
    """`nvrtc` (from the package cuda-python) or `nvcc`, as TVM calls them; None if there is neither."""
    if asked := os.environ.get(MODE):
        return asked
    if has_nvrtc():
        return "nvrtc"
    return "nvcc" if cuda_tool("nvcc") else None


def choose_compiler() -> None:
    """Make TVM use the compiler that there is, in this process and its children: by itself it tries only NVRTC."""
    found = compiler()
    if found:
        os.environ[MODE] = found
    if found == "nvcc" and not shutil.which("nvcc") and (path := cuda_tool("nvcc")):
        # TVM calls it by its name.
        os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(path).parent)])
