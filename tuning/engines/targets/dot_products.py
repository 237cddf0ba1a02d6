"""Instructions that multiply 8-bit integers and add the products in 32 bits, and the tensor intrinsics that stand for them in schedules."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, NamedTuple

FOUR = 4
"""Consecutive inputs of a row, that are multiplied by as many weights of each output and added to it."""


class Instruction(NamedTuple):
    """What a CPU has for that."""

    intrinsic: str
    """TVM's tensor intrinsic."""
    lanes: int
    """Outputs of a vector."""
    data: Literal["uint8", "int8"]
    """The type of the rows. Weights are int8."""
    feature: str
    """LLVM's name of what the CPU must have."""
    x86: str = ""
    """LLVM's function, where TVM has no tensor intrinsic that works."""


INSTRUCTIONS = (
    Instruction("dot_16x4_vnni", 16, "uint8", "avx512vnni", "llvm.x86.avx512.vpdpbusd.512"),
    Instruction("dot_8x4_avxvnni", 8, "uint8", "avxvnni", "llvm.x86.avx512.vpdpbusd.256"),
    Instruction("dot_4x4_i8i8s32_sdot", 4, "int8", "dotprod"),
)
"""The first that a CPU has is used. Not AVX-512 without VNNI: its sums of two products are cut off at 16 bits."""


def instruction_of(target: Any) -> Instruction | None:
    """That of the target's CPU, if it has one."""
    from tvm.target.codegen import target_has_features

    if str(target.kind.name) != "llvm":
        return None
    return next((one for one in INSTRUCTIONS if target_has_features([one.feature], target)), None)


@cache
def register() -> None:
    """Tell TVM the intrinsics of x86 CPUs, from now on in this process and its forks.

    TVM's own dot_16x4_vnni passes 32-bit integers where LLVM, since its version 22, takes vectors of bytes, and so can't be built. It keeps
    its name, so that records with it are TVM's.
    """
    from tvm.s_tir import TensorIntrin

    for one in INSTRUCTIONS:
        if one.x86:
            TensorIntrin.register(one.intrinsic, *_described(one), override=True)


def _described(instruction: Instruction) -> tuple[Any, Any]:
    """What the intrinsic computes, and how."""
    from tvm.script import from_source

    lanes, size = instruction.lanes, instruction.lanes * FOUR
    head = f"""# from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def dot(
    A: T.Buffer(({FOUR},), "{instruction.data}", offset_factor=1),
    B: T.Buffer(({lanes}, {FOUR}), "int8", offset_factor=1),
    C: T.Buffer(({lanes},), "int32", offset_factor=1),
) -> None:
    with T.sblock("root"):
        T.reads(C[0:{lanes}], A[0:{FOUR}], B[0:{lanes}, 0:{FOUR}])
        T.writes(C[0:{lanes}])
"""
    what = f"""\
        for i in T.serial(0, {lanes}):
            for k in T.serial(0, {FOUR}):
                with T.sblock("update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    C[vi] = C[vi] + T.cast(A[vk], "int32") * T.cast(B[vi, vk], "int32")
"""
    how = f"""\
        C[T.ramp(T.int32(0), 1, {lanes})] = T.call_llvm_pure_intrin(
            T.llvm_lookup_intrinsic_id("{instruction.x86}"),
            C.vload([0], dtype="int32x{lanes}"),
            T.reinterpret(T.broadcast(T.reinterpret(A.vload([0], "uint8x{FOUR}"), dtype="int32"), {lanes}), dtype="uint8x{size}"),
            B.vload([0, 0], dtype="int8x{size}"),
            dtype="int32x{lanes}",
        )
"""
    return from_source(head + what), from_source(head + how)
