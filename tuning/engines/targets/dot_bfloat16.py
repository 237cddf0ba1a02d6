"""Tensor intrinsics for the CPU instructions that multiply pairs of bfloat16 and add to float32. TVM has none for them.

TVM lowers bfloat16 to arithmetic of float32 before code is generated, and its LLVM types have no bfloat16, so the instruction is
in a function of LLVM's own language, which takes and returns what TVM knows. LLVM inlines it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from tuning.engines.wire.targets import BFLOAT16, PairsOfBfloat16

_LLVM = {16: "llvm.x86.avx512bf16.dpbf16ps.512", 4: "llvm.aarch64.neon.bfdot.v4f32.v8bf16"}
"""LLVM's intrinsics, by lanes."""

_FUNCTION = """\
define <{lanes} x float> @dot_bfloat16(<{lanes} x float> %sums, <{lanes} x i32> %a, <{lanes} x i32> %b) {{
  %x = bitcast <{lanes} x i32> %a to <{both} x bfloat>
  %y = bitcast <{lanes} x i32> %b to <{both} x bfloat>
  %r = call <{lanes} x float> @{llvm}(<{lanes} x float> %sums, <{both} x bfloat> %x, <{both} x bfloat> %y)
  ret <{lanes} x float> %r
}}
declare <{lanes} x float> @{llvm}(<{lanes} x float>, <{both} x bfloat>, <{both} x bfloat>)
"""

_BUFFERS = """\
# from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def dot(
    a: T.Buffer((2,), "uint16", offset_factor=1),
    b: T.Buffer(({lanes}, 2), "bfloat16", offset_factor=1),
    sums: T.Buffer(({lanes},), "float32", offset_factor=1, scope="local"),
):
    with T.sblock("root"):
        T.reads(sums[0:{lanes}], a[0:2], b[0:{lanes}, 0:2])
        T.writes(sums[0:{lanes}])
"""

_COMPUTES = """\
        for lane, nth in T.grid({lanes}, 2):
            with T.sblock("update"):
                vl, vn = T.axis.remap("SR", [lane, nth])
                sums[vl] = sums[vl] + T.Cast("float32", T.reinterpret("bfloat16", a[vn])) * T.Cast("float32", b[vl, vn])
"""

_CALLS = """\
        with T.attr(0, "pragma_import_llvm", {function!r}):
            sums[T.Ramp(0, 1, {lanes})] = T.call_pure_extern(
                "float32x{lanes}",
                "dot_bfloat16",
                sums.vload([0], "float32x{lanes}"),
                T.Broadcast(T.reinterpret("int32", a.vload([0], "uint16x2")), {lanes}),
                T.reinterpret("int32x{lanes}", b.vload([0, 0], "bfloat16x{both}")),
            )
"""
"""One pair of `a` for all lanes."""


@cache
def register() -> None:
    """Have TVM know the intrinsics, from now on in this process and its forks."""
    from tvm.s_tir import TensorIntrin

    for pairs in set(BFLOAT16.values()):
        TensorIntrin.register(pairs.intrinsic, *map(_function, _sources(pairs)), override=True)


def _function(source: str) -> Any:
    from tvm.script import from_source

    return from_source(source)


def _sources(pairs: PairsOfBfloat16) -> tuple[str, str]:
    """What the instruction computes, and the call of it."""
    given: dict[str, Any] = {"lanes": pairs.lanes, "both": 2 * pairs.lanes}
    function = _FUNCTION.format(**given, llvm=_LLVM[pairs.lanes])
    buffers = _BUFFERS.format(**given)
    return buffers + _COMPUTES.format(**given), buffers + _CALLS.format(**given, function=function)
