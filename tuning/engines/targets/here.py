"""How a resolved target is built for and measured on this machine."""

from __future__ import annotations

from typing import Any

from .resolving import cores


def measures_on_cpu(target: Any) -> bool:
    """Whether measurements use this machine's CPU, so that anything else it does would disturb them."""
    return str(target.kind.name) == "llvm"


def measures_beside(overlap: str, target: Any, *, remote: bool = False) -> bool:
    """Whether more is searched and built while candidates are measured, by the option `overlap`. On this machine's CPU that would disturb them."""
    return overlap == "on" or (overlap == "auto" and (remote or not measures_on_cpu(target)))


def local_artifact_suffix(target: Any) -> str:
    """The format of artifacts. LLVM IR is compiled when it is loaded: no linker, less time, and the same code."""
    return ".ll" if measures_on_cpu(target) else ".so"


def threads_to_measure(target: Any) -> int | None:
    """How many threads a measured function may use: as many as the target has cores, if this machine does; None for a GPU's."""
    threads = dict(target.attrs).get("num-cores")
    return min(int(threads), cores()) if threads and measures_on_cpu(target) else None
