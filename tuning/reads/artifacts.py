"""The files of compilations, and whether a run can be compiled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tuning.engines.wire.versions import in_use
from tuning.models import Compilation, Record, Run
from tuning.validation import Conflict

from .downloads import File, console_file, file_pieces
from .library import is_known

TVM = ("apache-tvm", "apache-tvm-ffi")


def compile_trouble(run: Run, source: str = Compilation.Source.RUN) -> str | None:
    """Why the run can't be compiled now; None when it can."""
    if run.synthetic:
        return "The run is synthetic: its records can't be compiled."
    if source == Compilation.Source.LIBRARY:
        if is_known(run):
            return None
        return "No run has a valid record of its workloads for this target by the installed TVM."
    if not Record.objects.filter(task__run=run).exists():
        return "The run has no valid record yet: there is nothing to compile it with."
    return other_tvm(run.versions)


def other_tvm(versions: Mapping[str, str]) -> str | None:
    """Why records made by these versions can't be used here; None when they can, or when the versions weren't recorded."""
    here = in_use()
    other = [f"{name} {versions[name]}" for name in TVM if name in versions and versions[name] != here.get(name)]
    if not other:
        return None
    ours = " and ".join(f"{name} {here.get(name, 'none')}" for name in TVM)
    return (
        f"Its records were made by {' and '.join(other)}, but {ours} is installed here, which may read them differently. "
        "Tune the network again: a warm start begins with the records that still apply."
    )


def check_published(compilation: Compilation) -> None:
    """Raises `Conflict` when there is no library."""
    if not compilation.is_published:
        raise Conflict(f"There is no library: the compilation is {compilation.status}.")


def library_file(compilation: Compilation) -> File:
    """The shared library. Raises `Conflict`."""
    return _file(compilation, compilation.library, "application/octet-stream")


def manifest_file(compilation: Compilation) -> File:
    """What the library is, as JSON. Raises `Conflict`."""
    return _file(compilation, compilation.manifest, "application/json")


def log_file(compilation: Compilation) -> File:
    """What TVM, compilers and linker printed. Raises `Conflict` when there is no output."""
    return console_file(compilation, f"compilation-{compilation.pk}_console.log")


def _file(compilation: Compilation, path: Path, kind: str) -> File:
    check_published(compilation)
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise Conflict("The library's files aren't on this machine (anymore).") from None
    name = f"compilation-{compilation.pk}{path.suffix}"
    return File(name, kind, f"{name} {compilation.sha256}", file_pieces(path, size), size)
