"""The archive's format: a tar, compressed with Zstandard, and behind it the SHA-256 of the file. No Django here.

The tar begins with the manifest and ends with `SHA256SUMS`, which has a line for each member before it. The file's own checksum is in
a frame that decompressors skip, so `tar --zstd -xf` and `sha256sum -c SHA256SUMS` open a backup without Tuneboard.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, BinaryIO, Protocol, cast

import zstandard
from typing_extensions import Buffer, Self

SUMS = "SHA256SUMS"
LEVEL = 3
"""Of Zstandard. Record files shrink to about a tenth; a higher level would disturb measurements on this machine's CPU for longer."""
MARK = b"\x50\x2a\x4d\x18" + (32).to_bytes(4, "little")
"""The header of a skippable frame of 32 bytes."""
END_BYTES = len(MARK) + 32
READ_BYTES = 1 << 20

Report = Callable[[int], object]
"""Told how many bytes were handled since the last call."""


class Readable(Protocol):
    """What can be read once, from its beginning."""

    def read(self, size: int = -1, /) -> bytes:
        """At most so many bytes; none at the end."""


class Damaged(Exception):
    """The file isn't a backup, or not as it was written; the message says what is wrong."""


class Writer:
    """Writes an archive. The file must not exist yet, and only its owner can read it."""

    def __init__(self, path: Path) -> None:
        self._file = _Summed(os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"))
        self._packed = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).stream_writer(
            cast("BinaryIO", self._file), closefd=False
        )
        self._tar = tarfile.open(fileobj=self._packed, mode="w|", format=tarfile.GNU_FORMAT)  # noqa: SIM115
        self._sums = tempfile.TemporaryFile(dir=path.parent)  # noqa: SIM115

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._finish()
        finally:
            self._sums.close()
            self._file.file.close()

    def add(self, name: str, file: IO[bytes], size: int, mtime: float, report: Report = int) -> None:
        """Add a member of `size` bytes, read from the file. Raises `OSError` if the file has fewer."""
        summed = _Summed(file, report)
        self._add(name, summed, size, mtime)
        self._sums.write(_line(summed.digest.hexdigest(), name))

    def _add(self, name: str, file: Any, size: int, mtime: float) -> None:
        member = tarfile.TarInfo(name)
        member.size, member.mtime, member.mode = size, int(mtime), 0o600
        self._tar.addfile(member, file)

    def _finish(self) -> None:
        size = self._sums.tell()
        self._sums.seek(0)
        self._add(SUMS, self._sums, size, 0)
        self._tar.close()
        self._packed.close()  # type: ignore[no-untyped-call]
        self._file.file.write(MARK + self._file.digest.digest())
        self._file.file.flush()
        os.fsync(self._file.file.fileno())


@dataclass(frozen=True)
class Member:
    """A file of an archive; `file` can be read until the next member is taken."""

    name: str
    size: int
    file: Readable


@contextmanager
def opened(path: Path, report: Report = int) -> Iterator[BinaryIO]:
    """Open an archive whose checksum is right. Raises `Damaged`, or `OSError`."""
    with path.open("rb") as file:
        _check(file, report)
        yield file


def members(file: BinaryIO) -> Iterator[Member]:
    """Yield the archive's members in their order, except the last one, and check them against that. Raises `Damaged`.

    Only when all were taken, and read, is it known that all are right.
    """
    file.seek(0)
    unpacked = zstandard.ZstdDecompressor().stream_reader(file, closefd=False)
    try:
        with (
            tempfile.TemporaryFile() as sums,
            tarfile.open(fileobj=unpacked, mode="r|", tarinfo=_PlainFile, format=tarfile.GNU_FORMAT) as tar,
        ):
            yield from _checked(tar, sums)
    except (tarfile.TarError, zstandard.ZstdError, EOFError, UnicodeError) as error:
        raise Damaged(f"its content can't be read ({error})") from error


def _checked(tar: tarfile.TarFile, sums: IO[bytes]) -> Iterator[Member]:
    for info in tar:
        file = tar.extractfile(info)
        assert file
        if info.name == SUMS:
            if not _same(file, sums) or tar.next() is not None:
                raise Damaged(f"its content isn't what {SUMS} in it says")
            return
        summed = _Summed(file)
        yield Member(info.name, info.size, summed)
        summed.read_rest()
        sums.write(_line(summed.digest.hexdigest(), info.name))
    raise Damaged(f"{SUMS} is missing in it")


def _check(file: BinaryIO, report: Report) -> None:
    """Raises `Damaged` if the file's checksum is missing or wrong."""
    size = file.seek(0, os.SEEK_END) - END_BYTES
    file.seek(max(0, size))
    end = file.read()
    if size < 0 or not end.startswith(MARK):
        raise Damaged("it isn't a backup by Tuneboard, or its end is missing")
    file.seek(0)
    digest = hashlib.sha256()
    while size and (piece := file.read(min(size, READ_BYTES))):
        digest.update(piece)
        size -= len(piece)
        report(len(piece))
    if digest.digest() != end[len(MARK) :]:
        raise Damaged("its checksum is wrong")


class _PlainFile(tarfile.TarInfo):
    """Nothing else belongs in a backup: no links, devices or folders, nor the headers that tarfile reads into memory whole."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        info = super().frombuf(buf, encoding, errors)
        if info.type != tarfile.REGTYPE:
            raise Damaged(f"{info.name[:200]!r} in it isn't a plain file")
        return info


class _Summed:
    """Computes the SHA-256 of what is read from a file, or written to it."""

    def __init__(self, file: IO[bytes], report: Report = int) -> None:
        self.file = file
        self.report = report
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        piece = self.file.read(size)
        self.digest.update(piece)
        self.report(len(piece))
        return piece

    def read_rest(self) -> None:
        while self.read(READ_BYTES):
            pass

    def write(self, data: Buffer) -> int:
        self.digest.update(data)
        return self.file.write(data)


def _line(digest: str, name: str) -> bytes:
    """As `sha256sum` writes it."""
    return f"{digest}  {name}\n".encode()


def _same(file: IO[bytes], other: IO[bytes]) -> bool:
    """Whether two files have the same content; the second one is read from its beginning."""
    other.seek(0)
    while True:
        piece = file.read(READ_BYTES)
        if piece != other.read(READ_BYTES):
            return False
        if not piece:
            return True
