"""Reads parts of records, and says of those that can't be used why."""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256
from typing import TypeVar

import msgspec

LONGEST_QUOTE = 60
Value = TypeVar("Value")


class RecordRefused(ValueError):
    """The record can't be used; the text says why, in words that follow "can't be used: "."""


def quote(text: str) -> str:
    """The beginning of a text of a record, on one line."""
    return repr(text[:LONGEST_QUOTE])


def decode(decoder: msgspec.json.Decoder[Value], data: bytes | msgspec.Raw, what: str) -> Value:
    """The data as the decoder's type. Raises `RecordRefused`, which says what isn't as it should be."""
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise RecordRefused(f"{what} isn't as TVM writes it: {error}") from None


class Checked:
    """Remembers texts that passed a check by their digests: most of a log's records share what they are made of."""

    def __init__(self) -> None:
        self._known: dict[bytes, int] = {}

    def check(self, text: bytes | msgspec.Raw, check: Callable[[bytes], int]) -> int:
        """What `check` returned for this text, which it isn't called with again. Its errors are raised, and aren't remembered."""
        digest = sha256(text).digest()
        found = self._known.get(digest)
        if found is None:
            found = check(bytes(text))
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            self._known[digest] = found
        return found


MOST_REMEMBERED = 100_000
STRING_OR_NOT_FINITE = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\b(?:NaN|nan|Infinity|inf(?:inity)?)\b')
NOT_FINITE = (b"NaN", b"nan", b"Inf", b"inf")


def without_infinities(line: bytes) -> bytes:
    """NaN and infinities, which JSON doesn't know but Python and C++ write, as null."""
    if not any(name in line for name in NOT_FINITE):
        return line
    return STRING_OR_NOT_FINITE.sub(lambda match: match[0] if match[0].startswith(b'"') else b"null", line)
