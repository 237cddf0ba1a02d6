"""Generated code as far as a page shows it."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import msgspec
import pytest

from dashboard.presentation.tasks import listing
from dashboard.presentation.tasks.listing import excerpt, in_words
from tuning.engines.wire.showing import HotLoop, Listing

LOOP = HotLoop("main", 2, 5, 6, instructions=24, fma=12, arithmetic=0, bits=512, loads=4, stores=1, stack=0)


def text_of(html: str) -> str:
    return unescape(re.sub(r"<[^>]+>", "", html))


def listed(lines: int, first: int = 0, last: int = 0) -> Listing:
    loop = msgspec.structs.replace(LOOP, first=first, last=last) if first else None
    return Listing("asm", "".join(f"\taddq\t${number}, %rax\n" for number in range(1, lines + 1)), loop)


def numbers(html: str) -> list[int]:
    return [int(number) for number in re.findall(r"\$(\d+)", text_of(html))]


def test_it_marks_the_hot_loop() -> None:
    shown = excerpt(listed(10, 5, 6))
    assert (shown.first, shown.last, shown.total) == (1, 10, 10)
    assert [numbers(part) for part in (shown.before, shown.hot, shown.after)] == [
        [1, 2, 3, 4],
        [5, 6],
        [7, 8, 9, 10],
    ]
    assert text_of(shown.before + shown.hot + shown.after) == listed(10).text


@pytest.mark.parametrize(
    ("first", "last", "shown"),
    [(0, 0, (1, 6)), (1, 2, (1, 6)), (10, 11, (8, 13)), (19, 20, (15, 20)), (5, 16, (5, 10))],
    ids=["none", "at-the-beginning", "in-the-middle", "at-the-end", "too-long"],
)
def test_a_long_listing_is_cut_around_its_hot_loop(
    monkeypatch: pytest.MonkeyPatch, first: int, last: int, shown: tuple[int, int]
) -> None:
    monkeypatch.setattr(listing, "MOST_LINES", 6)
    found = excerpt(listed(20, first, last))
    assert (found.first, found.last) == shown
    assert numbers(found.before + found.hot + found.after) == list(range(shown[0], shown[1] + 1))
    assert numbers(found.hot) == list(range(first, min(last, shown[1]) + 1)) if first else not found.hot


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("cuda", 'extern "C" __global__ void main_kernel(float* x);'),
        ("ptx", "\tfma.rn.f32 \t%f3, %f1, %f2, %f3;"),
        ("sass", "        /*0a20*/                   HMMA.16816.F16 R84, R8, R72, R84 ;"),
    ],
)
def test_each_form_of_cuda_has_its_syntax(kind: Any, line: str) -> None:
    shown = excerpt(Listing(kind, line))
    assert text_of(shown.before).rstrip("\n") == line
    assert 'class="err"' not in shown.before
    assert kind in listing.TITLES.keys() & listing.ABOUT.keys() & listing.SUFFIXES.keys()


def test_it_is_escaped() -> None:
    shown = excerpt(Listing("llvm", "; <script>alert(1)</script>\n"))
    assert "<script>" not in shown.before


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, "24 instructions, 12 FMAs of 512 bits, 4 loads, 1 store"),
        ({"fma": 1, "arithmetic": 2}, "1 FMA of 512 bits, 2 other floating-point instructions, 4 loads"),
        ({"fma": 0, "arithmetic": 2}, "24 instructions, 2 floating-point instructions of 512 bits, 4 loads"),
        ({"bits": 0}, "12 FMAs, 4 loads"),
    ],
    ids=["fma", "both", "no-fma", "scalable"],
)
def test_it_puts_a_hot_loop_into_words(changed: dict[str, Any], words: str) -> None:
    assert words in in_words(msgspec.structs.replace(LOOP, **changed))
