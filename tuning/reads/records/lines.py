"""One line of a long file that grows, without holding the file: a run of a million trials has a record file of gigabytes."""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from tuning.storage import store

PIECE_BYTES = 128 << 10
"""The shared storage reads so much at a time."""
FILES = 64
"""Most files whose lines are remembered. A file of 3 GB takes 200 KB."""
LONGEST_BYTES = 16 << 20
"""Of a line."""


class _Places:
    """How many lines end before each piece of a file. Bytes before the end of a line that somebody asked for never change."""

    def __init__(self) -> None:
        self._ended = array("Q", [0])
        self._lock = threading.Lock()

    def seek(self, file: BinaryIO, number: int) -> None:
        """Put the file at the beginning of this line, from 1; at its end if it has fewer."""
        with self._lock:
            self._look_up_to(file, number - 1)
            piece = max(0, bisect_left(self._ended, number - 1) - 1)
            before = self._ended[piece]
        file.seek(piece * PIECE_BYTES)
        for _ in range(number - 1 - before):
            file.readline()

    def _look_up_to(self, file: BinaryIO, lines: int) -> None:
        """Count the lines of all pieces before the one in which the last of so many lines ends.

        What follows the last end of a line isn't remembered: an engine that goes on after a crash drops a torn line.
        """
        file.seek((len(self._ended) - 1) * PIECE_BYTES)
        ended, torn = self._ended[-1], array("Q")
        while len(piece := file.read(PIECE_BYTES)) == PIECE_BYTES:
            if here := piece.count(b"\n"):
                self._ended.extend(torn)
                torn = array("Q")
            ended += here
            if ended >= lines:
                return
            torn.append(ended)


@lru_cache(maxsize=FILES)
def _places(_path: Path) -> _Places:
    return _Places()


def line(path: Path, number: int) -> bytes | None:
    """The stored file's line of this number, from 1, without its end; None if the file hasn't all of it yet.

    The first time it reads the file up to there, later only what is new. Raises `OSError`, and `ValueError` if the line is too long.
    """
    ((_, found),) = lines(path, [number])
    return found


def lines(path: Path, numbers: Iterable[int]) -> Iterator[tuple[int, bytes | None]]:
    """As `line`, for several numbers, each with its line."""
    with store().opened(path) as file:
        for number in numbers:
            _places(path).seek(file, number)
            found = file.readline(LONGEST_BYTES + 1)
            if len(found) > LONGEST_BYTES:
                raise ValueError(f"line {number:,} has more than {LONGEST_BYTES >> 20} MiB")
            yield number, found.rstrip(b"\r\n") if found.endswith(b"\n") else None
