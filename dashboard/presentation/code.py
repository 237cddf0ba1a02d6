"""Side-by-side difference of two TVMScript or schedule texts, with Python syntax highlighting."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from html import escape
from itertools import groupby, zip_longest
from typing import Union

import msgspec
from django.utils.safestring import SafeString, mark_safe
from pygments import lex
from pygments.lexers import PythonLexer
from pygments.token import STANDARD_TYPES

CONTEXT = 3
"""Unchanged lines that stay visible around a change."""
MOST_LINES = 2000
"""In both texts together; comparing more would block the web process for seconds."""

Line = list[tuple[str, str]]
"""Tokens with their Pygments class."""
Numbered = list[tuple[int, Line]]
Key = Callable[[str], Union[str, None]]
"""Lines with the same key are paired; None pairs with nothing."""


@dataclass(frozen=True)
class Cell:
    """A line of one side, numbered from 1."""

    number: int
    html: SafeString


@dataclass(frozen=True)
class Row:
    """A line of one side or of both."""

    left: Cell | None
    right: Cell | None
    changed: bool


@dataclass(frozen=True)
class Hunk:
    """Rows that are either all equal or all changed. Equal rows far from any change are folded."""

    rows: list[Row]
    changed: bool
    folded: bool = False


class TooLong(Exception):
    """The message says how long."""


def indented(record: str) -> str:
    """A record's JSON with a line for each of its parts; as it is if that isn't JSON."""
    try:
        parsed = msgspec.json.decode(record)
    except (msgspec.DecodeError, RecursionError):
        return record
    if isinstance(parsed, dict):
        return "\n".join(f"{name}: {msgspec.json.encode(value).decode()}" for name, value in parsed.items())
    return msgspec.json.encode(parsed).decode()


def difference(before: str, after: str) -> list[Hunk]:
    """Pair the lines of both texts. Raises `TooLong`.

    Blocks are paired by name. Lines that differ only in numbers are paired too: schedules differ in extents, and an
    additional instruction renumbers all later variables.
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


def _rows(left: Numbered, right: Numbered, keys: Sequence[Key]) -> Iterator[Row]:
    """Pair lines by the first key, and unpaired lines at the same place by the next ones."""
    first, *others = keys
    here, there = ([_comparable(first(_text(line))) for _, line in side] for side in (left, right))
    for kind, i, i_end, j, j_end in SequenceMatcher(None, here, there).get_opcodes():
        gone, come = left[i:i_end], right[j:j_end]
        if kind == "equal":
            yield from (_pair(*one, *other) for one, other in zip(gone, come, strict=True))
        elif kind == "replace" and others:
            yield from _rows(gone, come, others)
        else:
            yield from (Row(_cell(one), _cell(other), changed=True) for one, other in zip_longest(gone, come))


def _comparable(key: str | None) -> object:
    """Makes a missing key unequal to every other."""
    return object() if key is None else key


def _block(text: str) -> str | None:
    """The name of the block that begins here. The update of a decomposed reduction counts as the original block."""
    found = re.search(r'T\.sblock\("(.+?)(_update)?"\)', text)
    return found[1] if found else None


def _shape(text: str) -> str:
    """The line with its numbers replaced."""
    return re.sub(r"\d+", "0", text)


def _gist(text: str) -> str:
    """The kind of line: a loop, or what it assigns, reads or writes."""
    line = _shape(text).strip()
    return "for" if line.startswith("for ") else re.split(r"[(\[]", line)[0]


def _pair(number: int, line: Line, other_number: int, other: Line) -> Row:
    """Two versions of a line with the differing tokens marked."""
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
    """Split equal rows: those next to the previous change, the folded middle, and those next to the following change."""
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
