"""Single lines of long files."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tuning.reads.records import line, lines


@pytest.fixture(autouse=True)
def own_folder(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    settings.VAR = tmp_path
    monkeypatch.setattr(lines, "PIECE_BYTES", 16)
    lines._places.cache_clear()
    yield
    lines._places.cache_clear()


TEXTS = [b"a", b"", b"c" * 40, b"d" * 15, b"e" * 16, b"", b"", b"h" * 14, b"i"]


@pytest.mark.parametrize("order", [range(1, 10), range(9, 0, -1), [9, 1, 5, 5, 3]])
def test_it_finds_any_line_in_any_order(tmp_path: Path, order: Iterable[int]) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"".join(text + b"\n" for text in TEXTS))
    assert [line(path, number) for number in order] == [TEXTS[number - 1] for number in order]
    assert line(path, 10) is None


def test_it_follows_a_file_that_grows_and_ignores_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one\n" + b"t" * 60)
    assert (line(path, 1), line(path, 2), line(path, 3)) == (b"one", None, None)
    # A killed process left the torn line, which its successor drops.
    path.write_bytes(b"one\n" + b"two\n" * 20)
    assert [line(path, number) for number in (2, 21, 22)] == [b"two", b"two", None]


def test_it_reads_what_it_knows_only_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"".join(b"%07d\n" % number for number in range(1, 1001)))
    assert line(path, 1000) == b"0001000"
    counted = Counted(path.read_bytes())
    monkeypatch.setattr(lines, "store", lambda: Fixed(counted))
    assert line(path, 990) == b"0000990"
    assert counted.total < 100


def test_it_refuses_a_line_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST_BYTES", 30)
    path = tmp_path / "file"
    path.write_bytes(b"x" * 31 + b"\n")
    with pytest.raises(ValueError, match="line 1 has more than"):
        line(path, 1)


class Counted(io.BytesIO):
    """Counts what is read."""

    total = 0

    def read(self, size: int | None = -1) -> bytes:
        found = super().read(size)
        self.total += len(found)
        return found

    def readline(self, size: int | None = -1) -> bytes:
        found = super().readline(size)
        self.total += len(found)
        return found


class Fixed:
    """A store that has one file."""

    def __init__(self, file: Counted) -> None:
        self.file = file

    def opened(self, _path: Path) -> Counted:
        return self.file
