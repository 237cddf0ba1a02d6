"""Moves files to where TUNEBOARD_STORAGE says, from wherever they are, and tells whether that must be done."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from tuning.beneath import NotRegular

from . import chunks, objects
from .local import remove_here, size_here
from .shared import SharedStore, add_whole, drop, is_prefix, packed_all, pieces_of, write_copy
from .store import name_of, store
from .tables import Chunk, LooseObject, StoredFile

_OWN = r"\d+-\d{8}T\d{6}\.\d{6}"
_FILE = r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}"
STORED = re.compile(
    rf"runs/{_OWN}(\.log|/{_FILE})|networks/[0-9a-f]{{64}}\.(onnx|json)|compilations/{_OWN}/(console\.log|artifact/{_FILE})|imports/{_OWN}/\d+",
    re.ASCII,
)
"""The files of TUNEBOARD_VAR that belong to rows of the database."""
FOLDERS = ("runs", "networks", "compilations", "imports")
LINES = re.compile(r"runs/.*\.json")
"""Files of which only whole lines count: a killed process may have left half a line."""
Moved = tuple[str, int]
"""A file's name and its size in bytes."""


def misplaced() -> int:
    """How many files aren't where TUNEBOARD_STORAGE says, as far as this machine can tell."""
    found = store()
    if not isinstance(found, SharedStore):
        return StoredFile.objects.count()
    return _elsewhere(found.place).count() + len(_only_here())


def move() -> Iterator[Moved]:
    """Move all files that are misplaced, and yield each. Call it while nobody writes.

    A file is compared before it is removed from where it was, so this can be interrupted and begun again. Raises `OSError`.
    """
    found = store()
    if isinstance(found, SharedStore):
        yield from map(_store, _only_here())
        for file in list(_elsewhere(found.place)):
            yield _replace(file, found.place)
    else:
        yield from map(_bring_here, StoredFile.objects.order_by("pk"))
    for row in LooseObject.objects.all():
        objects.delete(row.url)
        row.delete()


def forget_objects() -> int:
    """Forget the files that have chunks in an object store, and delete no object; returns the number of these files."""
    with transaction.atomic():
        names = list(_having(~Q(url="")).values_list("pk", flat=True))
        Chunk.objects.filter(file__in=names).delete()
        StoredFile.objects.filter(pk__in=names).delete()
        LooseObject.objects.all().delete()
    return len(names)


def _having(chunk: Q) -> QuerySet[StoredFile]:
    return StoredFile.objects.filter(Exists(Chunk.objects.filter(chunk, file=OuterRef("pk")))).order_by("pk")


def _wrong(place: str) -> Q:
    """Chunks that belong elsewhere. What was just appended is in its row, wherever it will settle."""
    return ~Q(url__startswith=f"{place}/") & Q(settled=True) if place else ~Q(url="")


def _elsewhere(place: str) -> QuerySet[StoredFile]:
    return _having(_wrong(place))


def _only_here() -> list[Path]:
    """Files in TUNEBOARD_VAR that aren't stored."""
    stored = set(StoredFile.objects.values_list("pk", flat=True))
    paths = (path for folder in FOLDERS for path in sorted(Path(settings.VAR, folder).rglob("*")))
    return [
        path for path in paths if (name := name_of(path)) not in stored and STORED.fullmatch(name) and _is_regular(path)
    ]


def _is_regular(path: Path) -> bool:
    """Whether the file is still there, and is data. What else an engine has left belongs to no row."""
    with suppress(NotRegular):
        return size_here(path) is not None
    return False


def _store(path: Path) -> Moved:
    name = name_of(path)
    found = store()
    assert isinstance(found, SharedStore)
    pieces = _whole_lines(path) if LINES.fullmatch(name) else pieces_of(path)
    add_whole(name, packed_all(pieces, found.place))
    file = StoredFile.objects.get(pk=name)
    _check(file, path)
    remove_here(path)
    if not any(path.parent.iterdir()):
        path.parent.rmdir()
    return name, file.size


def _whole_lines(path: Path) -> Iterator[bytes]:
    left = b""
    for piece in pieces_of(path):
        end = piece.rfind(b"\n") + 1
        if end:
            yield left + piece[:end]
            left = piece[end:]
        else:
            left += piece


def _replace(file: StoredFile, place: str) -> Moved:
    for old in Chunk.objects.filter(_wrong(place), file=file).order_by("stop"):
        new = chunks.packed(old.start, chunks.piece_of(old), place)
        new.file_id = file.pk
        chunks.piece_of(new)  # Read back, and compared.
        with transaction.atomic():
            chunks.dropped([old.url])
            old.delete()
            new.save(force_insert=True)
            chunks.needed([new])
            StoredFile.objects.filter(pk=file.pk).update(loose=Chunk.objects.filter(file=file, settled=False).count())
    return file.pk, file.size


def _bring_here(file: StoredFile) -> Moved:
    """Raises `OSError` for a name that isn't ours, too: any machine of the site may have written the row."""
    if not STORED.fullmatch(file.pk):
        raise OSError(f"{file.pk!r} isn't the name of a stored file. It stays in the database.")
    path = Path(settings.VAR, file.pk)
    if not is_prefix(file, path):
        write_copy(file, path)
    _check(file, path)
    drop(StoredFile.objects.filter(pk=file.pk))
    return file.pk, file.size


def _check(file: StoredFile, path: Path) -> None:
    """Raises `chunks.Damaged` if the stored file isn't the beginning of the local one."""
    if not is_prefix(file, path):
        raise chunks.Damaged(f"{file.pk} wasn't copied as it is. It is still where it was.")
