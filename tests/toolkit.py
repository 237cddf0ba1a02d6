"""CUDA's toolkit, for tests that really compile: this machine's, or NVIDIA's packages in the tests' environment."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tuning.engines.wire.compiling import cuda_tool

PACKAGES = "nvidia-cuda-nvcc nvidia-cuda-cccl nvidia-cuda-nvdisasm"


def needs_nvcc() -> None:
    """Skip the test where CUDA C++ can't be compiled."""
    for program in ("nvcc", "ptxas"):
        if cuda_tool(program) is None:
            pytest.skip(f"{program} isn't installed: pip install {PACKAGES}")
    if shutil.which("g++") is None:
        pytest.skip("nvcc needs a C++ compiler (g++)")


def include(header: str) -> str:
    """The folder with the header. Skips the test where there is none."""
    nvcc = cuda_tool("nvcc")
    roots = [Path("/usr/local/cuda"), *([Path(nvcc).resolve().parents[1]] if nvcc else [])]
    found = next((root / "include" for root in roots if (root / "include" / header).is_file()), None)
    if found is None:
        pytest.skip(f"{header} isn't installed: pip install {PACKAGES}")
    return str(found)
