"""A stored file as a file that can be read."""

from __future__ import annotations

import io
from typing import BinaryIO, cast

from typing_extensions import Buffer

from .chunks import joined
from .tables import Chunk, StoredFile

AHEAD_BYTES = 128 << 10
"""So much is read at a time; small chunks are gathered up to that."""


class _Reader(io.RawIOBase):
    """The file up to the size that it had when it was opened. Bytes never change, even if chunks are joined meanwhile."""

    def __init__(self, file: StoredFile) -> None:
        self._name, self._size = file.pk, file.size
        self._at = self._begin = 0
        self._piece = b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Buffer) -> int:
        if self._at >= self._size:
            return 0
        if not self._begin <= self._at < self._begin + len(self._piece):
            self._load()
        view = memoryview(buffer).cast("B")
        inside = self._at - self._begin
        end = min(len(self._piece), self._size - self._begin, inside + len(view))
        view[: end - inside] = self._piece[inside:end]
        self._at += end - inside
        return end - inside

    def _load(self) -> None:
        try:
            chunks = self._chunks()
            piece = joined(chunks)
        except FileNotFoundError:  # Its chunk was joined with others just now.
            chunks = self._chunks()
            piece = joined(chunks)
        self._begin, self._piece = chunks[0].start, piece

    def _chunks(self) -> list[Chunk]:
        """Those that follow, of which the first has this place."""
        rows = Chunk.objects.filter(file=self._name, stop__gt=self._at, start__lt=self._at + AHEAD_BYTES)
        found = list(rows.order_by("stop"))
        if not found or found[0].start > self._at:
            raise OSError(f"{self._name} was removed while it was being read.")
        return found


def opened(file: StoredFile) -> BinaryIO:
    """The content of the file as it is now."""
    return cast("BinaryIO", io.BufferedReader(_Reader(file), AHEAD_BYTES))
