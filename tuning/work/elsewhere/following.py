"""A file that another process appends to, perhaps on a network file system: asked for its size again and again, since nothing tells of changes there."""

from __future__ import annotations

import os
from io import FileIO
from pathlib import Path
from typing import NamedTuple, cast

from tuning import beneath

PIECE_BYTES = 4 << 20
KNOWN_BYTES = 256
"""So many bytes before the place are compared: a file that was written anew may have grown past it meanwhile."""


class Place(NamedTuple):
    """How far a file is read: up to the end of a line, which ended with these bytes."""

    offset: int = 0
    before: bytes = b""


BEGIN = Place()


class News(NamedTuple):
    """Whole lines, without their ends. `anew`: they are the first ones of another file, or of one that was written anew."""

    lines: list[bytes]
    anew: bool
    more: bool
    """There is more to read at once."""


class Follower:
    """Reads what is appended. What a file lacks its newline for is left until it comes.

    A file that was renamed is read to its end before the one that took its place.
    """

    def __init__(self, path: Path, place: Place = BEGIN) -> None:
        self.path, self.place = path, place
        self._file: FileIO | None = None

    def read(self) -> News:
        """What came since, at most some MiB. Nothing while there is no file: it may be about to be replaced. Raises `OSError`."""
        try:
            fresh = _opened(self.path)  # Anew each time: a file system over the network then asks its server.
        except FileNotFoundError:
            return self._taken()
        if self._file is not None and not _is_same(self._file, fresh):
            if (rest := self._taken(last=True)).lines:
                fresh.close()
                return rest._replace(more=True)
            self._switch(fresh)
            self.place = Place()
            return self._taken()._replace(anew=True)
        self._switch(fresh)
        if self._continues(fresh):
            return self._taken()
        self.place = Place()
        return self._taken()._replace(anew=True)

    def another(self, place: Place) -> Follower:
        """One more reader, from a place in the file that is read now, even if it has been renamed since."""
        made = Follower(self.path, place)
        if self._file is not None:
            made._file = FileIO(os.dup(self._file.fileno()))
        return made

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
        self._file = None

    def _switch(self, file: FileIO) -> None:
        self.close()
        self._file = file

    def _continues(self, file: FileIO) -> bool:
        offset, before = self.place
        if os.fstat(file.fileno()).st_size < offset:
            return False
        file.seek(offset - len(before))
        return file.read(len(before)) == before

    def _taken(self, *, last: bool = False) -> News:
        """The next lines; of a file to which nothing will be added (`last`) also one without an end."""
        if self._file is None:
            return News([], anew=False, more=False)
        self._file.seek(self.place.offset)
        read = self._file.read(PIECE_BYTES)
        piece = self._whole(read, last=last)
        if not piece:
            return News([], anew=False, more=False)
        self.place = Place(self.place.offset + len(piece), (self.place.before + piece)[-KNOWN_BYTES:])
        return News(piece.removesuffix(b"\n").split(b"\n"), anew=False, more=len(read) >= PIECE_BYTES)

    def _whole(self, piece: bytes, *, last: bool) -> bytes:
        assert self._file is not None
        while len(piece) >= PIECE_BYTES and b"\n" not in piece and (more := self._file.read(PIECE_BYTES)):
            piece += more
        ended = piece[: piece.rfind(b"\n") + 1]
        return piece if last and not ended else ended


def _opened(path: Path) -> FileIO:
    """Without a buffer, so that readers of one description of the file don't disturb each other: each seeks before it reads.

    The path had no links when it was allowed, so those that are there now aren't followed.
    """
    file = beneath.open_file(Path(path.anchor), path, buffering=0, names=beneath.ANY)
    return cast("FileIO", file)


def _is_same(one: FileIO, other: FileIO) -> bool:
    """Whether both are the same file, under whatever name. One that was removed on a server is another."""
    try:
        return os.path.sameopenfile(one.fileno(), other.fileno())
    except OSError:
        return False
