"""Links object files into a shared library, with the linker that the question names or the system's compiler."""

import subprocess
from typing import Any, Callable, List, NamedTuple, Optional, Sequence

from tuning.engines.old_tvm.refusing import Refused


class Linker(NamedTuple):
    """`command` is what comes before `-shared`."""

    name: str
    command: List[str]


def linker(given: Optional[List[str]], name: str) -> Linker:
    """The one that is given, or a C++ compiler. Raises `Refused` if there is none."""
    if given:
        return Linker(name, given)
    from tvm.contrib import cc

    try:
        found = cc.get_cc()
    except ValueError:
        found = None
    if not found:
        raise Refused(
            "There is no linker for shared libraries: install the package ziglang beside Tuneboard, or a C compiler."
        )
    return Linker(str(found), [str(found), "-fPIC"])


def linking(by: Linker) -> Callable[..., None]:
    """As `tvm.contrib.cc.create_shared`. Raises `Refused` with the linker's message."""

    def link(output: str, objects: Sequence[str], options: Optional[Sequence[str]] = None, **_: Any) -> None:
        done = subprocess.run(
            [*by.command, "-shared", "-o", output, *objects, *(options or ())],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if done.returncode:
            said = done.stdout.decode(errors="replace").strip()[-1000:]
            raise Refused(f"The library can't be linked by {by.name}: {said}")

    return link
