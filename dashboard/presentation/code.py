"""Two pieces of TVMScript, or of schedule code, side by side; both are Python, whose parts are marked by classes."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from html import escape
from itertools import groupby, zip_longest
from typing import Union

from django.utils.safestring import SafeString, mark_safe
from pygments import lex
from pygments.lexers import PythonLexer
from pygments.token import STANDARD_TYPES

CONTEXT = 3
"""Equal lines that stay visible beside a change."""
MOST_LINES = 2000
"""Of both texts together: a longer comparison would keep the web process busy for seconds."""

Line = list[tuple[str, str]]
"""Tokens: the class that Pygments gives each, and its text."""
Numbered = list[tuple[int, Line]]
Measure = Callable[[str], Union[str, None]]
"""What lines must have in common to be paired."""


@dataclass(frozen=True)
class Cell:
    """One line of one side, numbered from 1."""

    number: int
    html: SafeString


@dataclass(frozen=True)
class Row:
    """A line of either side, or of both."""

    left: Cell | None
    right: Cell | None
    changed: bool


@dataclass(frozen=True)
class Hunk:
    """Rows that are all equal or all changed; folded are equal ones that are far from any change."""

    rows: list[Row]
    changed: bool
    folded: bool = False


class TooLong(Exception):
    """The message says how long."""


def difference(before: str, after: str) -> list[Hunk]:
    """Both texts, line beside line. Raises `TooLong`.

    A block is beside that of its name. Lines that differ in numbers only are versions of one line: schedules differ in
    extents, and the variables of their code are numbered anew from where one has an instruction more.
    """
    left, right = _lines(before), _lines(after)
    if len(left) + len(right) > MOST_LINES:
        raise TooLong(f"{len(left):,} lines and {len(right):,} are more than can be compared here ({MOST_LINES:,}).")
    rows = _rows(list(enumerate(left, 1)), list(enumerate(right, 1)), (_block, _shape, _gist))
    runs = [Hunk(list(run), changed) for changed, run in groupby(rows, key=lambda row: row.changed)]
    return [part for nth, run in enumerate(runs) for part in _folded(run, nth > 0, nth < len(runs) - 1)]


def _lines(text: str) -> list[Line]:
    found: list[Line] = [[]]
    for kind, value in lex(text.rstrip("\n"), PythonLexer(stripnl=False, ensurenl=False)):
        first, *more = value.split("\n")
        found[-1].append((_class(kind), first))
        found.extend([(_class(kind), one)] for one in more)
    return found


def _class(kind: object) -> str:
    while kind not in STANDARD_TYPES:
        kind = kind.parent  # type: ignore[attr-defined]
    return str(STANDARD_TYPES[kind])


def _rows(left: Numbered, right: Numbered, alike_by: Sequence[Measure]) -> Iterator[Row]:
    """Pairs what is alike by the first of these measures; what is left of both in one place, by those that follow."""
    first, *others = alike_by
    here, there = ([_key(first(_text(line))) for _, line in side] for side in (left, right))
    for kind, i, i_end, j, j_end in SequenceMatcher(None, here, there).get_opcodes():
        gone, come = left[i:i_end], right[j:j_end]
        if kind == "equal":
            yield from (_pair(*one, *other) for one, other in zip(gone, come, strict=True))
        elif kind == "replace" and others:
            yield from _rows(gone, come, others)
        else:
            yield from (Row(_cell(one), _cell(other), changed=True) for one, other in zip_longest(gone, come))


def _key(measured: str | None) -> object:
    """What a measure has no word for is like nothing else."""
    return object() if measured is None else measured


def _block(text: str) -> str | None:
    """Which block begins here. What a reduction's update does is what the block did before it was taken apart."""
    found = re.search(r'T\.sblock\("(.+?)(_update)?"\)', text)
    return found[1] if found else None


def _shape(text: str) -> str:
    """All of a line but its numbers."""
    return re.sub(r"\d+", "0", text)


def _gist(text: str) -> str:
    """That it is a loop, or what it assigns, reads or writes: whatever the extents, however deep."""
    line = _shape(text).strip()
    return "for" if line.startswith("for ") else re.split(r"[(\[]", line)[0]


def _pair(number: int, line: Line, other_number: int, other: Line) -> Row:
    """Two versions of a line, with marks on what differs."""
    gone: set[int] = set()
    come: set[int] = set()
    words, other_words = [text for _, text in line], [text for _, text in other]
    for kind, i, i_end, j, j_end in SequenceMatcher(None, words, other_words, autojunk=False).get_opcodes():
        if kind != "equal":
            gone.update(range(i, i_end))
            come.update(range(j, j_end))
    return Row(
        Cell(number, _html(line, gone)), Cell(other_number, _html(other, come)), changed=_text(line) != _text(other)
    )


def _cell(numbered: tuple[int, Line] | None) -> Cell | None:
    return Cell(numbered[0], _html(numbered[1])) if numbered else None


def _folded(run: Hunk, follows: bool, goes_on: bool) -> Iterator[Hunk]:  # noqa: FBT001
    """A run of equal rows in up to three: beside the change before it, far from any, beside the change after it."""
    begin = CONTEXT if follows else 0
    end = len(run.rows) - (CONTEXT if goes_on else 0)
    if run.changed or end - begin <= CONTEXT:
        yield run
        return
    for rows, folded in ((run.rows[:begin], False), (run.rows[begin:end], True), (run.rows[end:], False)):
        if rows:
            yield Hunk(rows, changed=False, folded=folded)


def _html(line: Line, marked: Container[int] = ()) -> SafeString:
    tokens = (_token(kind, text, nth in marked) for nth, (kind, text) in enumerate(line))
    return mark_safe("".join(tokens))  # noqa: S308 - each is escaped


def _token(kind: str, text: str, marked: bool) -> str:  # noqa: FBT001
    shown = f'<span class="{kind}">{escape(text)}</span>' if kind and text.strip() else escape(text)
    return f"<mark>{shown}</mark>" if marked and text.strip() else shown


def _text(line: Line) -> str:
    return "".join(text for _, text in line)
