"""CUDA C++ as far as it can be compiled without a GPU: PTX, machine code for an architecture, and what that needs."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from tuning.engines.wire.compiling import cuda_tool
from tuning.engines.wire.errors import Refused, last_line

from . import cuda

HOW_TO_INSTALL = "the package nvidia-cuda-nvcc with nvidia-cuda-cccl and a C++ compiler (g++), or NVIDIA's CUDA Toolkit"
NO_SASS = "SASS, the machine code in words, needs nvdisasm: install the package nvidia-cuda-nvdisasm, or NVIDIA's CUDA Toolkit."
CALLBACK = "tvm_callback_cuda_compile"
"""The global function by which TVM compiles CUDA C++ where it finds a GPU."""
SHARED = "tirx.use_dyn_shared_memory"
_VERSION = re.compile(r"\bV(\d+\.\d+\.\d+)")
LONGEST_REASON = 300


class Launch(NamedTuple):
    """How a kernel is launched."""

    blocks: int
    """In the grid."""
    threads: int
    """Per block."""
    dynamic_shared_bytes: int
    """Shared memory per block that isn't in the kernel's own code."""


class Assembled(NamedTuple):
    """What ptxas made of PTX."""

    report: str
    """What it says with -v of each kernel."""
    sass: str | None
    """The machine code in words, if nvdisasm is there."""


def launches(lowered: Any) -> dict[str, Launch]:
    """How the host's code of a lowered module launches each kernel, where that doesn't depend on arguments."""
    from tvm.ir import Call
    from tvm_ffi import structural

    params = {
        str(var.name_hint): [str(name) for name in function.attrs["tirx.kernel_launch_params"]]
        for var, function in lowered.functions.items()
        if function.attrs and "tirx.kernel_launch_params" in function.attrs
    }
    found: dict[str, Launch] = {}

    def visit(call: Any) -> None:
        name = str(getattr(call.args[0], "value", "")) if len(call.args) else ""
        if name in params:
            last = call.args[len(call.args) - len(params[name]) :]
            values = [value for each in last if isinstance(value := getattr(each, "value", None), int)]
            if len(values) == len(params[name]):
                found[name] = _launch(dict(zip(params[name], values, strict=True)))

    for function in lowered.functions.values():
        structural.structural_walk(function.body, (Call, visit))
    return found


@contextmanager
def without_compiling() -> Iterator[None]:
    """Have TVM leave CUDA C++ as it is, whether or not it finds a GPU."""
    import tvm_ffi

    compiling = tvm_ffi.get_global_func(CALLBACK)
    tvm_ffi.register_global_func(CALLBACK, lambda _code: b"not compiled", override=True)
    try:
        yield
    finally:
        tvm_ffi.register_global_func(CALLBACK, compiling, override=True)


def ptx(source: str, target: Any) -> str:
    """The PTX that TVM's compiler makes of the source. Raises `Refused` with its reason."""
    from tvm.support import nvcc

    compiler = cuda.compiler()
    if compiler is None:
        raise Refused(f"PTX, registers, spills and occupancy need a compiler of CUDA here: install {HOW_TO_INSTALL}.")
    cuda.choose_compiler()
    try:
        with target:
            made = nvcc.compile_cuda(source, target_format="ptx", compiler=compiler)
    except Exception as error:
        raise Refused(f"{compiler} can't compile it for {target.attrs['arch']}: {_reason(str(error))}.") from error
    return bytes(made).decode().rstrip("\0")


def assembled(text: str, arch: str) -> Assembled:
    """Machine code of PTX, by the options that TVM compiles with. Raises `Refused`."""
    from tvm.support import nvcc

    ptxas = cuda_tool("ptxas")
    if ptxas is None:
        raise Refused(f"Registers, spills and occupancy need ptxas: install {HOW_TO_INSTALL}.")
    with TemporaryDirectory() as folder:
        source, binary = Path(folder) / "kernels.ptx", Path(folder) / "kernels.cubin"
        source.write_text(text)
        options = nvcc._ptxas_option_flags()  # noqa: SLF001  there is no other way to them, and -v is one of them
        report = _said([ptxas, f"-arch={arch}", *options, "-o", str(binary), str(source)])
        disassembler = cuda_tool("nvdisasm")
        return Assembled(report, _said([disassembler, "-c", str(binary)]) if disassembler else None)


def assembler() -> str:
    """The name and version of ptxas."""
    ptxas = cuda_tool("ptxas")
    version = _VERSION.search(_said([ptxas, "--version"])) if ptxas else None
    return f"ptxas {version[1]}" if version else "ptxas"


def _launch(extents: dict[str, int]) -> Launch:
    sizes = {"block": 1, "thread": 1}
    for name, extent in extents.items():
        kind = name.partition("Idx.")[0]
        if kind in sizes:
            sizes[kind] *= extent
    return Launch(sizes["block"], sizes["thread"], extents.get(SHARED, 0))


def _said(command: list[str]) -> str:
    """Everything that a program prints. Raises `Refused` if it fails."""
    done = subprocess.run(
        command, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise Refused(f"{Path(command[0]).name} fails: {last_line(done.stdout, LONGEST_REASON)}.")
    return done.stdout


def _reason(text: str) -> str:
    """TVM's error quotes the whole source before what the compiler says."""
    said = text.rpartition("Compilation error:")[2]
    errors = [line for line in said.splitlines() if "error" in line.lower() or "fatal" in line.lower()]
    return " ".join(last_line(errors[0] if errors else said, LONGEST_REASON).split())
