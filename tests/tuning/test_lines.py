"""Lines of a stream that arrives in pieces, within limits."""

from __future__ import annotations

import pytest

from tuning.lines import Lines, TooLong


def feed(lines: Lines, piece: bytes) -> None:
    for _ in range(51):
        lines.add(piece)


def test_it_joins_pieces_and_divides_lines() -> None:
    lines = Lines()
    assert [lines.add(piece) for piece in (b"a", b"b\nc\n\nd", b"", b"\n")] == [[], [b"ab", b"c", b""], [], [b"d"]]


@pytest.mark.parametrize("size", [1, 7, 100])
def test_it_refuses_a_line_that_is_too_long(size: int) -> None:
    lines = Lines(longest=50)
    assert lines.add(b"x" * 50 + b"\n") == [b"x" * 50]
    with pytest.raises(TooLong):
        feed(lines, b"x" * size)


def test_it_refuses_a_long_line_that_ends() -> None:
    with pytest.raises(TooLong):
        Lines(longest=50).add(b"short\n" + b"x" * 51 + b"\n")


def test_it_refuses_too_many_lines() -> None:
    lines = Lines(longest=50, most=100)
    with pytest.raises(TooLong):
        feed(lines, b"x\n")
