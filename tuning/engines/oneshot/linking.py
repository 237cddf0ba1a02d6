"""Links object files into a shared library, even on machines without a compiler.

TVM's objects need only a linker. The package ziglang brings LLVM's, which links ELF files for every processor in 0.2 s: on machines
that have nothing but Python, and for boards that the system's compiler can't link for.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from tuning.engines.wire import versions
from tuning.engines.wire.compiling import zig
from tuning.engines.wire.errors import Refused


def name() -> str:
    """The linker and its version. Raises `Refused` if there is none."""
    return f"ziglang {versions.installed('ziglang')} (ld.lld)" if zig() else _compiler()


def link(output: str, objects: Sequence[str], options: Sequence[str] | None = None) -> None:
    """As `tvm.support.cc.create_shared`. Raises `Refused` with the linker's message."""
    linker = zig()
    command = [linker, "ld.lld"] if linker else [_compiler(), "-fPIC"]
    done = subprocess.run(
        [*command, "-shared", "-o", output, *objects, *(options or ())], check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise Refused(f"The library can't be linked by {name()}: {(done.stderr or done.stdout).strip()[-1000:]}")


def _compiler() -> str:
    from tvm.support import cc

    if found := cc.get_cc():
        return str(found)
    raise Refused(
        "There is no linker for shared libraries: install the package ziglang, or a C compiler (gcc or clang)."
    )
