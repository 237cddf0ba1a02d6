"""Loads the tensor intrinsics that a target can use, and no others.

TVM imports `tvm.s_tir.tensor_intrin` whenever a tuning context is made and whenever a module is built. That package
parses the intrinsics of every GPU and CPU it knows: 8 s of CPU, of which an x86 CPU needs 0.4 s.
"""

from __future__ import annotations

import importlib
import importlib.util
import platform
import sys
from typing import Any

PACKAGE = "tvm.s_tir.tensor_intrin"
_OF_CPU = {"x86_64": ["x86"], "AMD64": ["x86"], "aarch64": ["arm_cpu"], "arm64": ["arm_cpu"], "riscv64": ["riscv_cpu"]}


def kind_for(kind: str, target: Any) -> str:
    """What `load` takes: everything ("any") for a CPU that isn't of this machine's sort, as a device elsewhere may have."""
    triple = target.get("mtriple") if isinstance(target, dict) else None
    return kind if not triple or str(triple).partition("-")[0] == platform.machine() else "any"


def load(kind: str) -> None:
    """Load what a target of that kind needs on this machine, unless it is; everything when that isn't known."""
    modules = _OF_CPU.get(platform.machine()) if kind == "llvm" else None
    spec = importlib.util.find_spec(PACKAGE)
    assert spec
    assert spec.loader
    # The package without running its __init__, which would import all of its modules.
    package = sys.modules.setdefault(PACKAGE, importlib.util.module_from_spec(spec))
    for name in modules or ():
        importlib.import_module(f"{PACKAGE}.{name}")
    if modules is None:
        spec.loader.exec_module(package)
