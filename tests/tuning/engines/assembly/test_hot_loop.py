"""The hot loop of assembly as LLVM prints it, for x86 and AArch64."""

from __future__ import annotations

import pytest

from tuning.engines.assembly import hot_loop

X86 = "x86_64-unknown-linux-gnu"
ARM = "aarch64-linux-gnu"

NEST = """\
	.text
main_compute_:
	pushq	%rbx
	xorl	%eax, %eax
.LBB0_1:                                # a loop that copies
	vmovups	(%rdi,%rax), %zmm0
	vmovups	%zmm0, (%rsi,%rax)
	addq	$64, %rax
	cmpq	$4096, %rax
	jne	.LBB0_1
	xorl	%ecx, %ecx
	.p2align	4
.LBB0_2:
	vxorps	%xmm0, %xmm0, %xmm0
	xorl	%eax, %eax
.Ltmp3:
	jmp	.LBB0_3
.LBB0_3:
	vbroadcastss	(%rdi,%rax,4), %zmm1
	vfmadd231ps	(%rsi,%rax,4), %zmm1, %zmm0
	vfmadd231ps	64(%rsp), %zmm1, %zmm2
	vmovups	%zmm2, 64(%rsp)
	incq	%rax
	cmpq	$64, %rax
	jne	.LBB0_3
	vaddps	%zmm0, %zmm2, %zmm0
	vmovups	%zmm0, (%rdx,%rcx)
	addq	$64, %rcx
	cmpq	$4096, %rcx
	jne	.LBB0_2
	popq	%rbx
	retq
"""


def test_it_is_the_innermost_loop_that_computes() -> None:
    found = hot_loop(NEST, X86)
    assert found
    assert (found.function, found.depth) == ("main_compute_", 2)
    lines = NEST.splitlines()
    assert lines[found.first - 1].startswith("\tvbroadcastss")
    assert lines[found.last - 1] == "\tjne\t.LBB0_3"
    assert (found.instructions, found.fma, found.arithmetic, found.bits) == (7, 2, 0, 512)
    assert (found.loads, found.stores, found.stack) == (3, 1, 2)


def test_unrolled_work_of_an_outer_loop_counts_as_its_own() -> None:
    """The inner loop only copies: what the outer one computes isn't attributed to it."""
    text = """\
f:
.LBB0_1:
	xorl	%eax, %eax
.LBB0_2:
	movq	(%rdi,%rax), %rcx
	movq	%rcx, (%rsi,%rax)
	decq	%rax
	jne	.LBB0_2
	vmulps	%ymm0, %ymm1, %ymm2
	vaddps	%ymm2, %ymm3, %ymm3
	decq	%rdx
	jne	.LBB0_1
	retq
"""
    found = hot_loop(text, X86)
    assert found
    assert (found.first, found.last, found.depth) == (3, 12, 1)
    assert (found.instructions, found.fma, found.arithmetic, found.bits) == (5, 0, 2, 256)
    assert (found.loads, found.stores) == (0, 0)


def test_a_jump_back_to_what_never_returns_is_no_loop() -> None:
    """LLVM places shared ends of functions before those that jump there."""
    text = "f:\n\tjmp\t.LBB0_2\n.LBB0_1:\n\tvmulps\t%ymm0, %ymm1, %ymm2\n\tretq\n.LBB0_2:\n\ttestq\t%rax, %rax\n\tje\t.LBB0_1\n\tjmp\t.LBB0_1\n"
    assert hot_loop(text, X86) is None


def test_a_loop_may_have_several_blocks() -> None:
    text = """\
f:
.LBB0_1:
	testq	%rax, %rax
	je	.LBB0_3
	vfmadd213sd	%xmm1, %xmm2, %xmm3
.LBB0_3:
	decq	%rax
	jmp	.LBB0_1
"""
    found = hot_loop(text, X86)
    assert found
    assert (found.instructions, found.fma, found.bits) == (5, 1, 64)


def test_it_reads_aarch64() -> None:
    text = """\
main_compute_:
.LBB1_1:                                // %for_body
	mov	x8, xzr
.LBB1_2:
	ldp	q0, q1, [x9, #32]
	ldr	q2, [sp, #16]
	fmla	v3.4s, v0.4s, v2.s[0]
	fmla	v4.4s, v1.4s, v2.s[1]
	fadd	v5.4s, v5.4s, v4.4s
	str	q5, [x10], #16
	subs	x8, x8, #1
	b.ne	.LBB1_2
	cbnz	x11, .LBB1_1
	ret
"""
    found = hot_loop(text, ARM)
    assert found
    assert (found.depth, found.first, found.last) == (2, 5, 12)
    assert (found.instructions, found.fma, found.arithmetic, found.bits) == (8, 2, 1, 128)
    assert (found.loads, found.stores, found.stack) == (2, 1, 1)


@pytest.mark.parametrize(
    ("text", "triple"),
    [
        ("f:\n\tvfmadd231ps\t%zmm0, %zmm1, %zmm2\n\tretq\n", X86),
        ("f:\n.LBB0_1:\n\tdecq\t%rax\n\tjne\t.LBB0_1\n\tretq\n", X86),
        (NEST, "hexagon"),
        ("", X86),
    ],
    ids=["no-loop", "no-arithmetic", "unknown-architecture", "empty"],
)
def test_there_may_be_none(text: str, triple: str) -> None:
    assert hot_loop(text, triple) is None


@pytest.mark.parametrize(
    ("instruction", "fma", "bits", "loads", "stores"),
    [
        ("vfmadd231ps\t(%rax){1to16}, %zmm1, %zmm2", 1, 512, 1, 0),
        ("vfnmadd132pd\t%ymm0, %ymm1, %ymm2", 1, 256, 0, 0),
        ("vdpbf16ps\t%zmm0, %zmm1, %zmm2", 1, 512, 0, 0),
        ("vpdpbusd\t64(%rdi), %ymm1, %ymm2", 1, 256, 1, 0),
        ("mulss\t(%rdi,%rax), %xmm0", 0, 32, 1, 0),
    ],
)
def test_it_knows_instructions_of_x86(instruction: str, fma: int, bits: int, loads: int, stores: int) -> None:
    found = hot_loop(f"f:\n.LBB0_1:\n\t{instruction}\n\tjne\t.LBB0_1\n\tretq\n", X86)
    assert found
    assert (found.fma, found.bits, found.loads, found.stores) == (fma, bits, loads, stores)


@pytest.mark.parametrize(
    ("memory", "loads", "stores"),
    [
        ("vmovups\t%zmm0, (%rdx,%rcx)", 0, 1),
        ("vmovups\t(%rdx,%rcx), %zmm0 {%k1} {z}", 1, 0),
        ("vmovups\t%zmm0, (%rdx) {%k1}", 0, 1),
        ("addq\t$8, (%rsp)", 1, 1),
        ("cmpq\t$8, (%rsp)", 1, 0),
        ("leaq\t8(%rsp), %rax", 0, 0),
        ("prefetcht0\t(%rdi)", 0, 0),
    ],
)
def test_it_tells_loads_from_stores(memory: str, loads: int, stores: int) -> None:
    found = hot_loop(f"f:\n.LBB0_1:\n\t{memory}\n\tmulps\t%xmm0, %xmm1\n\tjne\t.LBB0_1\n\tretq\n", X86)
    assert found
    assert (found.loads, found.stores) == (loads, stores)
