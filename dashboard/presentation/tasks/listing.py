"""Generated code with syntax highlighting: as much of it as a page bears, around its hot loop."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.safestring import SafeString, mark_safe
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from dashboard.presentation.units import count
from tuning.reads.showing import HotLoop, Listing

MOST_LINES = 2000
TITLES = {"tir": "Lowered TIR", "llvm": "LLVM IR", "asm": "Assembly", "cuda": "CUDA", "ptx": "PTX", "sass": "SASS"}
ABOUT = {
    "tir": "what TVM’s code generators get",
    "llvm": "as TVM gives it to LLVM, after TVM’s passes",
    "asm": "as LLVM makes it for the run’s target",
    "cuda": "the kernels as TVM gives them to CUDA’s compiler",
    "ptx": "as CUDA’s compiler makes it",
    "sass": "the machine code, as ptxas makes it for the run’s target",
}
SUFFIXES = {"tir": "py", "llvm": "ll", "asm": "s", "cuda": "cu", "ptx": "ptx", "sass": "sass"}
_LEXERS = {"tir": "python", "llvm": "llvm", "asm": "gas", "cuda": "cuda", "ptx": "ptx", "sass": "gas"}
INSTEAD = ("cuda",)
"""What is shown first of a target that doesn't have the form asked for."""


@dataclass(frozen=True)
class Excerpt:
    """The lines from `first` to `last` of `total`, from 1; those of the hot loop are in `hot`."""

    first: int
    last: int
    total: int
    before: SafeString
    hot: SafeString
    after: SafeString


def excerpt(listing: Listing) -> Excerpt:
    """At most `MOST_LINES` lines, with the hot loop among them; the first ones if there is none."""
    lines = listing.text.splitlines()
    loop = range(listing.hot_loop.first - 1, listing.hot_loop.last) if listing.hot_loop else range(0)
    room = max(0, MOST_LINES - len(loop))
    start = max(0, min(loop.start - room // 2, len(lines) - MOST_LINES)) if loop else 0
    end = min(len(lines), start + MOST_LINES)
    loop_end = min(loop.stop, end)
    parts = (
        (lines[start : loop.start], lines[loop.start : loop_end], lines[loop_end:end])
        if loop
        else (lines[:end], [], [])
    )
    before, hot, after = (_html(part, listing.kind) for part in parts)
    return Excerpt(start + 1, end, len(lines), before, hot, after)


def in_words(loop: HotLoop) -> str:
    """Such as `24 instructions, 12 FMAs of 512 bits, 4 loads, 0 stores`."""
    width = f" of {loop.bits} bits" if loop.bits else ""
    parts = [_many(loop.instructions, "instruction")]
    parts += [_many(loop.fma, "FMA") + width] if loop.fma else []
    if loop.arithmetic or not loop.fma:
        other = "other floating-point instruction" if loop.fma else "floating-point instruction"
        parts.append(_many(loop.arithmetic, other) + ("" if loop.fma else width))
    parts += [_many(loop.loads, "load"), _many(loop.stores, "store")]
    return ", ".join(parts)


def _many(number: int, what: str) -> str:
    return f"{count(number)} {what}{'' if number == 1 else 's'}"


def _html(lines: list[str], kind: str) -> SafeString:
    if not lines:
        return mark_safe("")
    lexer = get_lexer_by_name(_LEXERS[kind], stripnl=False)
    html: str = highlight("\n".join(lines), lexer, HtmlFormatter(nowrap=True))
    return mark_safe(html)  # noqa: S308 - Pygments has escaped it
