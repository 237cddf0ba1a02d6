"""Loads only the tensor intrinsics that a target can use.

TVM imports `tvm.s_tir.tensor_intrin` when it makes a tuning context and when it builds a module. That package parses the intrinsics
of all GPUs and CPUs that it knows, which takes 12 s of CPU time; those of CUDA take 7 s, and those of an x86 CPU 0.4 s.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import platform
import sys
from typing import Any

from . import dot_bfloat16, dot_products

PACKAGE = "tvm.s_tir.tensor_intrin"
_OF_WORKERS = "TUNEBOARD_INTRINSICS"
"""Environment variable that tells a fork server which tensor intrinsics its workers need."""
_OF_CPU = {"x86_64": ["x86"], "AMD64": ["x86"], "aarch64": ["arm_cpu"], "arm64": ["arm_cpu"], "riscv64": ["riscv_cpu"]}

_OF_GPU = {"cuda": ["cuda"]}


def kind_for(kind: str, target: Any) -> str:
    """The argument for `load`: "any" for a remote device's CPU of another architecture."""
    triple = target.get("mtriple") if isinstance(target, dict) else None
    return kind if not triple or str(triple).partition("-")[0] == platform.machine() else "any"


def load(kind: str) -> None:
    """Load what a target of that kind needs on this machine, unless it is loaded; everything if that isn't known."""
    modules = _OF_CPU.get(platform.machine()) if kind == "llvm" else _OF_GPU.get(kind)
    spec = importlib.util.find_spec(PACKAGE)
    assert spec
    assert spec.loader
    # Import the package without running its __init__, which imports all of its modules.
    package = sys.modules.setdefault(PACKAGE, importlib.util.module_from_spec(spec))
    for name in modules or ():
        importlib.import_module(f"{PACKAGE}.{name}")
    if modules is None:
        spec.loader.exec_module(package)
    if kind in ("llvm", "any"):
        dot_bfloat16.register()
        dot_products.register()


def load_with_workers(kind: str) -> None:
    """As `load`, also for a fork server of this process that has to load TVM anew."""
    os.environ[_OF_WORKERS] = kind
    load(kind)


def load_in_server() -> None:
    """In such a fork server: load what its process named."""
    load(os.environ[_OF_WORKERS])
