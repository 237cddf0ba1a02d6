"""The files that someone names: paths, folders, gzip and zip. Nothing is unpacked to disk, and nothing beyond the limits."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, BinaryIO, cast

from typing_extensions import Self

from tuning import beneath

from .neutral import Skipped

MIB = 1 << 20
GIB = 1 << 30
GZIP, ZIP = b"\x1f\x8b", b"PK\x03\x04"
SMALL = 64 * MIB
"""Whatever unpacks to no more than this isn't a bomb, however well it was packed."""
PIECE = MIB // 16
"""Bytes read at once: when an archive turns out to be broken, what came before this piece is kept."""
BROKEN = (OSError, EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError, RuntimeError)
"""What reading a file or a broken archive raises. zipfile raises the last two for methods that it lacks and for passwords."""


@dataclass(frozen=True)
class Limits:
    """What one call of `sources` may read. A file beyond a limit is skipped or, if that shows only while reading, ends there, with the reason."""

    unpacked_bytes: int = 64 * GIB
    members: int = 10_000
    """Files in all folders and archives."""
    ratio: int = 200
    """Unpacked bytes for each packed one, beyond the first 64 MiB."""
    line_bytes: int = 64 * MIB
    on_read: Callable[[], None] = lambda: None
    """Called whenever something was read or unpacked, 1 MiB or less. What it raises ends the reading."""


@dataclass(frozen=True)
class Source:
    """A file, or a member of an archive."""

    name: str
    """As to be shown: the path relative to what was named; `archive.zip/member` for members."""
    open: Callable[[], BinaryIO]
    """A new stream of the unpacked bytes. Reading it raises `Unreadable` if the file is broken or exceeds the limits."""
    limits: Limits

    @property
    def folder(self) -> str:
        """Empty for a file that was named itself."""
        return self.name.rpartition("/")[0]


class Unreadable(ValueError):
    """The file is broken or exceeds a limit; the message says which."""


@dataclass(frozen=True)
class Found:
    """What `sources` found."""

    sources: Sequence[Source]
    skipped: Sequence[Skipped]


def sources(paths: Path | str | Iterable[Path | str], limits: Limits = Limits()) -> Found:
    """All files below the paths, in order of their names. Raises `FileNotFoundError` for a path that isn't there.

    A path may be a link; links inside of a folder aren't followed.
    """
    named = [Path(path) for path in ([paths] if isinstance(paths, (str, Path)) else paths)]
    return _collected([entry for path in named for entry in _files(path)], limits)


def of_file(name: str, open_file: Callable[[], BinaryIO], limits: Limits = Limits()) -> Found:
    """The same for one upload, whose bytes `open_file` gives as a new stream that can seek."""
    return _collected([(name, open_file)], limits)


def of_files(files: Iterable[tuple[str, Callable[[], BinaryIO]]], limits: Limits = Limits()) -> Found:
    """The same for several uploads. A name may have folders: the logs of a work directory are told by them."""
    return _collected(list(files), limits)


Opener = Callable[[], BinaryIO]


def _files(path: Path) -> Iterator[tuple[str, Opener | None]]:
    """Names and how to open them; None for what isn't a file."""
    if not path.is_dir():
        path.stat()
        yield path.name, lambda: path.open("rb")
        return
    for each in sorted(path.rglob("*")):
        name = each.relative_to(path).as_posix()
        if each.is_symlink():
            yield name, None
        elif not each.is_dir():
            yield name, partial(beneath.open_file, path, each, names=beneath.ANY) if each.is_file() else None


def _collected(entries: Sequence[tuple[str, Opener | None]], limits: Limits) -> Found:
    found: list[Source] = []
    skipped: list[Skipped] = []
    for name, open_file in entries:
        try:
            for each in _look_into(name, open_file, limits):
                if isinstance(each, Source):
                    found.append(each)
                else:
                    skipped.append(each)
        except (ValueError, *BROKEN) as error:
            skipped.append(Skipped(name, _reason(error)))
    skipped += [Skipped(each.name, f"there are more than {limits.members:,} files") for each in found[limits.members :]]
    return Found(found[: limits.members], skipped)


def _look_into(name: str, open_file: Opener | None, limits: Limits) -> Iterator[Source | Skipped]:
    if open_file is None:
        yield Skipped(name, "it is a link or no plain file, so it isn't read")
        return
    with open_file() as file:
        start = file.read(len(ZIP))
        if start == ZIP:
            file.seek(0)
            yield from _members(name, file, open_file, limits)
        elif start:
            yield Source(name, _stream(open_file, limits, packed=start.startswith(GZIP)), limits)
        else:
            yield Skipped(name, "it is empty")


def _members(name: str, file: BinaryIO, open_file: Opener, limits: Limits) -> Iterator[Source | Skipped]:
    reopened = _Reopened(open_file)
    archive = zipfile.ZipFile(cast("IO[bytes]", reopened))
    with closing(reopened):
        members = [member for member in archive.infolist() if not member.is_dir()]
        _check(members, file.seek(0, io.SEEK_END), limits)
        for member in sorted(members, key=lambda each: each.filename):
            limits.on_read()
            shown = f"{name}/{member.filename}"
            with archive.open(member) as stream:
                start = stream.read(len(ZIP))
            if start == ZIP:
                yield Skipped(shown, "an archive within an archive isn't read")
            elif start:
                opener = _member_opener(archive, member, reopened)
                yield Source(shown, _stream(opener, limits, packed=start.startswith(GZIP)), limits)


class _Reopened:
    """A file that is opened again when it is read after `close`: an archive's members are opened one by one, its directory is read once."""

    def __init__(self, open_file: Opener) -> None:
        self._open_file = open_file
        self._opened: BinaryIO | None = None

    @property
    def _file(self) -> BinaryIO:
        if self._opened is None:
            self._opened = self._open_file()
        return self._opened

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None


def _check(members: Sequence[zipfile.ZipInfo], size: int, limits: Limits) -> None:
    """No more of a member is read than its header says, so what the headers say can be relied on."""
    if len(members) > limits.members:
        raise Unreadable(f"the archive has {len(members):,} files; at most {limits.members:,} are read")
    unpacked, packed = sum(each.file_size for each in members), sum(each.compress_size for each in members)
    if packed > size:
        raise Unreadable("its files overlap, as in a bomb")
    if unpacked > limits.unpacked_bytes:
        raise Unreadable(f"it unpacks to {unpacked:,} bytes; at most {limits.unpacked_bytes:,} are read")
    if unpacked > SMALL and unpacked > limits.ratio * packed:
        raise Unreadable(f"it unpacks to more than {limits.ratio} times its size, as a bomb would")


def _member_opener(archive: zipfile.ZipFile, member: zipfile.ZipInfo, file: _Reopened) -> Opener:
    return lambda: cast("BinaryIO", _Member(archive.open(member), file))


class _Member:
    """The stream of an archive's member, which closes the archive, too."""

    def __init__(self, stream: IO[bytes], file: _Reopened) -> None:
        self._stream, self._file = stream, file

    def read(self, size: int = -1) -> bytes:
        return self._stream.read(size)

    def tell(self) -> int:
        """Bytes read so far. A packed member within an archive is measured by its own packed size."""
        return self._stream.tell()

    def close(self) -> None:
        self._stream.close()
        self._file.close()


def _stream(open_file: Opener, limits: Limits, *, packed: bool) -> Opener:
    return lambda: cast("BinaryIO", _Limited(open_file(), limits, packed=packed))


class _Limited:
    """A stream that stops at the limits. Readers of logs only use `read`, `close` and `with`."""

    def __init__(self, file: BinaryIO, limits: Limits, *, packed: bool) -> None:
        self._file, self._limits, self._packed = file, limits, packed
        self._unpacked = gzip.GzipFile(fileobj=file) if packed else file
        self._count = 0
        self._broken: Unreadable | None = None

    def read(self, size: int = MIB) -> bytes:
        """At least a byte unless the file ended. What was read before something went wrong is returned first. Raises `Unreadable`."""
        pieces: list[bytes] = []
        while size > 0 and (piece := self._piece(min(size, PIECE))):
            pieces.append(piece)
            size -= len(piece)
        self._limits.on_read()
        if self._broken and not pieces:
            raise self._broken
        return b"".join(pieces)

    def _piece(self, size: int) -> bytes:
        if self._broken:
            return b""
        try:
            piece = self._unpacked.read(size)
            self._count += len(piece)
            self._check()
        except (Unreadable, *BROKEN) as error:
            self._broken = Unreadable(_reason(error))
            return b""
        return piece

    def _check(self) -> None:
        if self._count > self._limits.unpacked_bytes:
            raise Unreadable(f"it has more than {self._limits.unpacked_bytes:,} bytes")
        if self._packed and self._count > max(SMALL, self._limits.ratio * self._file.tell()):
            raise Unreadable(f"it unpacks to more than {self._limits.ratio} times its size, as a bomb would")

    def close(self) -> None:
        if self._packed:
            self._unpacked.close()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _reason(error: BaseException) -> str:
    if isinstance(error, Unreadable):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"it can't be read: {error.strerror}"
    return f"it is broken: {error}"
