"""Looks at a built library before it is offered, without loading it: `python -m tuning.engines.oneshot.library_file` answers `LookInto`.

TVM's libraries run no code when they are loaded, and need nothing but TVM's runtime and the C library's functions for numbers and memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile

from tuning.engines.wire.compiling import LookInto, Needs
from tuning.engines.wire.errors import Refused

from . import serving

RUN_WHEN_LOADED = frozenset(("DT_INIT", "DT_FINI", "DT_INIT_ARRAY", "DT_FINI_ARRAY", "DT_PREINIT_ARRAY"))
OF_COMPILERS = RUN_WHEN_LOADED - {"DT_PREINIT_ARRAY"}
"""What a C compiler's start files have, where it links instead of a mere linker: an array with a function of theirs."""
POINTER = 8
ELSEWHERE = frozenset(("DT_RPATH", "DT_RUNPATH", "DT_AUDIT", "DT_DEPAUDIT", "DT_FILTER", "DT_AUXILIARY"))
LIBRARIES = frozenset(("libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6"))
IFUNC = "STT_LOOS"
"""A symbol whose address a function computes when the library is loaded."""
IRELATIVE = frozenset((37, 42, 58, 160, 1032))
"""Relocations by such a function: on x86-64, i386, RISC-V, 32-bit and 64-bit Arm."""
MOST_SYMBOLS = 1_000_000

_MATHEMATICS = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 expm1 fabs floor fma fmax fmin fmod hypot"
    " ldexp lgamma log log10 log1p log2 lrint llrint modf nearbyint nextafter pow remainder rint round roundeven sin sincos sinh sqrt tan tanh"
    " tgamma trunc"
)
_MEMORY = "memcpy memmove memset"
_START_FILES = "__cxa_finalize __gmon_start__ _ITM_deregisterTMCloneTable _ITM_registerTMCloneTable"
_RUNTIME = (
    "TVMAPISetLastError TVMBackendAllocWorkspace TVMBackendAnyListMoveFromPackedReturn TVMBackendAnyListResetItem"
    " TVMBackendAnyListSetPackedArg TVMBackendFreeWorkspace TVMBackendGetFuncFromEnv TVMBackendParallelBarrier TVMBackendParallelLaunch"
    " TVMBackendRegisterEnvCAPI TVMBackendRunOnce TVMFFIAnyViewToOwnedAny TVMFFIEnvModLookupFromImports TVMFFIErrorSetRaisedFromCStr"
    " TVMFFIErrorSetRaisedFromCStrParts TVMFFIFunctionCall TVMFFIObjectDecRef TVMFFIObjectIncRef TVMFuncCall"
)
_EITHER_PRECISION = (f"{name}{suffix}" for name in _MATHEMATICS.split() for suffix in ("", "f"))
SYMBOLS = frozenset((*_EITHER_PRECISION, *_MEMORY.split(), *_START_FILES.split(), *_RUNTIME.split()))
"""What a library may need of the process that loads it."""
ARITHMETIC = re.compile(r"__(gnu_[fhd]2[fhd]_ieee|[a-z]+([hsdtx]f|bf|[sdt]i)+[0-9]?)")
"""Functions of compilers' own libraries for numbers that the CPU has no instructions for, such as `__truncsfhf2`."""


def look(path: str, *, by_compiler: bool) -> Needs:
    """The symbols that the library needs. Raises `Refused` if it runs code when it is loaded, or needs something else."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pyelftools reads files
            segments = [one for one in ELFFile(file).iter_segments() if isinstance(one, DynamicSegment)]
            if len(segments) != 1:
                raise Refused("The library isn't offered: it has no dynamic segment, or several.")
            _check_tags(segments[0], by_compiler=by_compiler)
            _check_relocations(segments[0])
            return Needs(sorted(_needed(segments[0])))
    except (ELFError, ValueError, LookupError, AttributeError, TypeError, OverflowError, OSError) as error:
        if isinstance(error, Refused):
            raise
        raise Refused(f"The library isn't offered: it can't be read: {error}") from error


def _check_tags(segment: DynamicSegment, *, by_compiler: bool) -> None:
    for tag in segment.iter_tags():
        kind = str(tag.entry.d_tag)
        if kind in RUN_WHEN_LOADED and not (by_compiler and kind in OF_COMPILERS):
            raise Refused(
                f"The library isn't offered: it would run code when it is loaded ({kind}), which TVM's never do."
            )
        if kind in ("DT_INIT_ARRAYSZ", "DT_FINI_ARRAYSZ") and tag.entry.d_val > POINTER:
            raise Refused(f"The library isn't offered: it would run several functions when it is loaded ({kind}).")
        if kind in ELSEWHERE or (kind == "DT_NEEDED" and getattr(tag, "needed", "") not in LIBRARIES):
            raise Refused(f"The library isn't offered: it would load other libraries ({kind}).")


def _check_relocations(segment: DynamicSegment) -> None:
    tables = cast("dict[str, Any]", segment.get_relocation_tables())
    for table in tables.values():
        for relocation in table.iter_relocations():
            if relocation["r_info_type"] in IRELATIVE and relocation["r_info_sym"] == 0:
                raise Refused("The library isn't offered: it would run code when it is loaded (IRELATIVE).")


def _needed(segment: DynamicSegment) -> Iterator[str]:
    for number, symbol in enumerate(segment.iter_symbols()):
        if number > MOST_SYMBOLS:
            raise Refused(f"The library isn't offered: it has more than {MOST_SYMBOLS:,} symbols.")
        if symbol["st_info"]["type"] == IFUNC:
            raise Refused("The library isn't offered: it would run code when it is loaded (IFUNC).")
        if symbol["st_shndx"] != "SHN_UNDEF" or not symbol.name:
            continue
        if symbol.name not in SYMBOLS and not ARITHMETIC.fullmatch(symbol.name):
            raise Refused(f"The library isn't offered: it needs {symbol.name[:80]!r}, which no library of TVM's needs.")
        yield str(symbol.name)


def _answer(question: LookInto, pipe: serving.Pipe) -> None:
    needed = (look(path, by_compiler=question.by_compiler).symbols for path in question.paths)
    pipe.send(Needs(sorted(set().union(*needed))))


def main() -> None:
    serving.serve(LookInto, _answer, "The library can't be looked into")


if __name__ == "__main__":
    main()
