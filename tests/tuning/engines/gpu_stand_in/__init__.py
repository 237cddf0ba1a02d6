"""A stand-in for an NVIDIA GPU: libraries in place of its driver and runtime (`gpu.c`), and for its compiler.

TVM finds them in place of the real ones, so everything but the GPU is real. They compute nothing, so times mean nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).with_name("gpu.c")
RUNTIME, DRIVER = "libcudart.so.13", "libcuda.so.1"
NVCC = """#!/bin/sh
while [ $# -gt 0 ]; do
  [ "$1" = -o ] && printf 'code for the stand-in' > "$2"
  shift
done
"""
"""The stand-in takes any code."""


def add_compiler(folder: Path) -> Path:
    """A compiler whose code only the stand-in can run."""
    folder.mkdir(exist_ok=True)
    nvcc = folder / "nvcc"
    nvcc.write_text(NVCC)
    nvcc.chmod(0o755)
    return nvcc


def install(folder: Path) -> dict[str, str]:
    """Make the stand-in in the folder. Returns the environment of a process that is to find it."""
    (folder / "versions").write_text(f"{RUNTIME} {{ global: *; }};")
    _compile(folder, RUNTIME, f"-Wl,--version-script={folder / 'versions'}")
    _compile(folder, DRIVER, "-DDRIVER", str(folder / RUNTIME))
    nvcc = add_compiler(folder / "bin")
    return {
        "LD_LIBRARY_PATH": str(folder),
        "PATH": f"{nvcc.parent}{os.pathsep}{os.environ['PATH']}",
        "STAND_IN_GPU": str(folder),
        "TVM_CUDA_COMPILE_MODE": "nvcc",
    }


def plan(folder: Path, *what: str) -> None:
    """What happens to the kernels of modules that are loaded from now on: `crash`, `failure`, `hang`, `illegal`, or `fine`.

    `absent` and `full` are about the GPU itself, from now on.
    """
    loads = folder / "loads"
    loaded = loads.stat().st_size if loads.exists() else 0
    lines = [f"{0 if each in ('absent', 'full') else loaded + nth} {each}" for nth, each in enumerate(what, 1)]
    (folder / "plan").write_text("\n".join(lines))


def _compile(folder: Path, name: str, *options: str) -> None:
    compiler = [found] if (found := shutil.which("gcc")) else [sys.executable, "-m", "ziglang", "cc"]
    command = [*compiler, "-shared", "-fPIC", "-w", f"-Wl,-soname,{name}", "-o", str(folder / name), str(SOURCE)]
    subprocess.run([*command, *options], check=True)
