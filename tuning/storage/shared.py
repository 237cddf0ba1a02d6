"""Files that all machines of a site read: in tables, or in an object store whose objects the tables name."""

from __future__ import annotations

import io
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from django.conf import settings
from django.core.files.base import File
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now

from tuning.beneath import NotRegular

from . import chunks, reading
from .chunks import CHUNK_BYTES
from .local import old_here, open_here, remove_here, size_here
from .store import Moved, Prepared, Store, Written, name_of
from .tables import Chunk, StoredFile

SETTLED_FROM = 1 << 20
"""A chunk of this size is left as it is; smaller ones of a file that grows are joined."""


class SharedStore(Store):
    """Where a file isn't stored, because it was written under another setting, the local file is read."""

    is_shared = True

    def __init__(self, place: str = "") -> None:
        """`place` is where objects go, such as `s3://BUCKET/PREFIX`; without it chunks are in their rows."""
        self.place = place

    def opened(self, path: Path) -> BinaryIO:
        file = StoredFile.objects.filter(pk=name_of(path)).first()
        return open_here(path) if file is None else reading.opened(file)

    def length(self, path: Path) -> int | None:
        size = StoredFile.objects.filter(pk=name_of(path)).values_list("size", flat=True).first()
        return size_here(path) if size is None else size

    def stored(self, path: Path) -> int:
        return StoredFile.objects.filter(pk=name_of(path)).values_list("size", flat=True).first() or 0

    def holds(self, path: Path) -> bool:
        file = StoredFile.objects.filter(pk=name_of(path)).first()
        size = size_here(path) or 0
        if file is None or size > file.size:
            return size == 0
        if size == file.size:
            return is_prefix(file, path)
        with reading.opened(file) as stored:
            return all(stored.read(len(piece)) == piece for piece in pieces_of(path))

    def append(self, path: Path, start: int, data: bytes) -> None:
        """What is appended settles later."""
        name = name_of(path)
        pieces = [
            chunks.packed(start + at, data[at : at + CHUNK_BYTES], settled=False)
            for at in range(0, len(data), CHUNK_BYTES)
        ]
        if not self.place:
            for piece in pieces:
                piece.settled = piece.stop - piece.start >= SETTLED_FROM
        with transaction.atomic(savepoint=False):
            grown = {
                "size": start + len(data),
                "loose": F("loose") + sum(not piece.settled for piece in pieces),
                "changed_at": Now(),
            }
            if not StoredFile.objects.filter(pk=name, size=start).update(**grown):
                self._make_room(name, start)
                if not StoredFile.objects.filter(pk=name, size=start).update(**grown):
                    raise Moved(f"{name} doesn't end at byte {start}: another process appends to it.")
            _insert(name, pieces)

    def written(self, path: Path) -> Written:
        drop(StoredFile.objects.filter(pk=name_of(path)))
        return _Appended(self, path)

    def prepare(self, path: Path) -> Prepared:
        return _Whole(self, path)

    def fetch(self, path: Path) -> None:
        file = StoredFile.objects.filter(pk=name_of(path)).first()
        if file is not None and _size_of_copy(path) != file.size:
            write_copy(file, path)

    def restore(self, path: Path) -> None:
        file = StoredFile.objects.filter(pk=name_of(path)).first()
        if file is not None and not is_prefix(file, path):
            write_copy(file, path)

    def old(self, folder: Path, age: timedelta) -> list[Path]:
        """Of copies, too: those of other machines are theirs to remove."""
        files = StoredFile.objects.filter(pk__startswith=f"{name_of(folder)}/")
        stored, changed = _parts(folder, files), _parts(folder, files.filter(changed_at__gte=Now() - age))
        local = [path for path in old_here(folder.glob("*"), age) if path.name not in stored]
        return [folder / part for part in sorted(stored - changed)] + local

    def remove(self, path: Path) -> None:
        name = name_of(path)
        drop(StoredFile.objects.filter(Q(pk=name) | Q(pk__startswith=f"{name}/")))
        remove_here(path)

    def get_modified_time(self, name: str) -> datetime:
        """When it was last appended to."""
        return self._file(name).changed_at

    def exists(self, name: str) -> bool:
        return StoredFile.objects.filter(pk=name_of(name)).exists()

    def size(self, name: str) -> int:
        return self._file(name).size

    def delete(self, name: str) -> None:
        self.remove(settings.VAR / name)

    def listdir(self, path: str) -> tuple[list[str], list[str]]:
        """The names of folders and files directly below the path."""
        prefix = f"{name_of(path)}/".removeprefix("./")
        below = StoredFile.objects.filter(pk__startswith=prefix).values_list("name", flat=True)
        rest = [name.removeprefix(prefix).partition("/") for name in below]
        return sorted({part for part, more, _ in rest if more}), sorted(part for part, more, _ in rest if not more)

    def _file(self, name: str) -> StoredFile:
        """Raises `FileNotFoundError`."""
        try:
            return StoredFile.objects.get(pk=name_of(name))
        except StoredFile.DoesNotExist:
            raise FileNotFoundError(f"{name} isn't stored.") from None

    def _open(self, name: str, mode: str = "rb") -> File[bytes]:
        if mode != "rb":
            raise ValueError("A stored file can only be opened to be read: save it, or append to it.")
        return File(reading.opened(self._file(name)), name)

    def _save(self, name: str, content: File[Any]) -> str:
        pieces = iter(partial(content.read, CHUNK_BYTES), b"")
        add_whole(name_of(name), packed_all(pieces, self.place))
        return name

    def _make_room(self, name: str, start: int) -> None:
        """Make the file, or cut it back to `start`."""
        made = {"changed_at": Now()}
        file, _ = StoredFile.objects.select_for_update().get_or_create(pk=name, defaults=made)
        if file.size <= start:
            return
        rows = Chunk.objects.filter(file=name, stop__gt=start)
        kept = [
            chunks.packed(row.start, chunks.piece_of(row)[: start - row.start], settled=False)
            for row in rows.filter(start__lt=start)
        ]
        _delete(rows)
        _insert(name, kept)
        loose = Chunk.objects.filter(file=name, settled=False).count()
        StoredFile.objects.filter(pk=name).update(size=start, loose=loose)


class _Appended:
    """A new file, stored when it is flushed."""

    def __init__(self, store: SharedStore, path: Path) -> None:
        self._store, self._path = store, path
        self._size = 0
        self._new = io.BytesIO()

    def write(self, data: bytes, /) -> int:
        return self._new.write(data)

    def flush(self) -> None:
        if data := self._new.getvalue():
            self._store.append(self._path, self._size, data)
            self._size += len(data)
            self._new = io.BytesIO()

    def close(self) -> None:
        self._new.close()


class _Whole:
    """A local file whose objects, if there are to be any, are in the object store already."""

    def __init__(self, store: SharedStore, path: Path) -> None:
        self._chunks = packed_all(pieces_of(path), store.place)

    def add(self, path: Path) -> None:
        add_whole(name_of(path), self._chunks)


def add_whole(name: str, content: Iterable[Chunk]) -> None:
    """Store a complete file under this name, in place of any other."""
    with transaction.atomic():
        StoredFile.objects.select_for_update().get_or_create(pk=name, defaults={"changed_at": Now()})
        _delete(Chunk.objects.filter(file=name))
        size = 0
        for chunk in content:
            _insert(name, [chunk])
            size = chunk.stop
        StoredFile.objects.filter(pk=name).update(size=size, loose=0, changed_at=Now())


def packed_all(pieces: Iterable[bytes], place: str) -> Iterable[Chunk]:
    """The chunks of a file. Objects exist when this returns; chunks for the database are made one after the other, to save memory."""
    made = _chunks(pieces, place)
    return list(made) if place else made


def drop(files: QuerySet[StoredFile]) -> None:
    """Delete files and their chunks; the sweep deletes their objects."""
    with transaction.atomic():
        names = list(files.values_list("pk", flat=True))
        _delete(Chunk.objects.filter(file__in=names))
        StoredFile.objects.filter(pk__in=names).delete()


def _parts(folder: Path, files: QuerySet[StoredFile]) -> set[str]:
    """What these files, which are below the folder, are in: names directly below it."""
    prefix = f"{name_of(folder)}/"
    return {name.removeprefix(prefix).partition("/")[0] for name in files.values_list("pk", flat=True)}


def pieces_of(path: Path) -> Iterator[bytes]:
    """A local file's content, in pieces of a chunk each."""
    with open_here(path) as file:
        while piece := file.read(CHUNK_BYTES):
            yield piece


def is_prefix(file: StoredFile, path: Path) -> bool:
    """Whether the local file begins with what is stored. Compared by digests, so that nothing is fetched."""
    size = _size_of_copy(path)
    if size is None or size < file.size:
        return False
    with open_here(path) as local:
        rows = file.chunks.order_by("stop").values_list("start", "stop", "digest")
        return all(chunks.digest_of(local.read(stop - start)) == bytes(digest) for start, stop, digest in rows)


def _size_of_copy(path: Path) -> int | None:
    """Its bytes; None, too, for what an engine put in its place: the copy is made anew."""
    with suppress(NotRegular):
        return size_here(path)
    return None


def write_copy(file: StoredFile, path: Path) -> None:
    """Make the local file what is stored; it appears with its whole content. Raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with reading.opened(file) as stored, open_here(fresh, "xb") as copy:
            shutil.copyfileobj(stored, copy, CHUNK_BYTES)
            copy.flush()
            os.fsync(copy.fileno())
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def _chunks(pieces: Iterable[bytes], place: str) -> Iterator[Chunk]:
    start = 0
    for piece in pieces:
        yield chunks.packed(start, piece, place)
        start += len(piece)


def _insert(name: str, new: list[Chunk]) -> None:
    for chunk in new:
        chunk.file_id = name
    Chunk.objects.bulk_create(new)
    chunks.needed(new)


def _delete(rows: QuerySet[Chunk]) -> None:
    """Delete rows; the sweep deletes their objects."""
    chunks.dropped(list(rows.exclude(url="").values_list("url", flat=True)))
    rows.delete()
