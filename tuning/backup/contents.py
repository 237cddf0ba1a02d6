"""Which files belong in a backup, and by which names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from django.conf import settings
from django.db import connections

from tuning.beneath import NotRegular, open_file
from tuning.logs import meta_schedule
from tuning.models import RECORD_FILES, Chunk, Compilation, Network, Run, StoredFile
from tuning.storage.local import open_here
from tuning.storage.shared import SharedStore

DATABASE, SECRET = "database", "secret_key"
FOLDERS = ("runs", "networks", "compilations")
"""Folders of TUNEBOARD_VAR. Whatever else is there can be made anew: caches, static files, the logs of processes."""

_OWN = r"\d{1,19}-\d{8}T\d{6}\.\d{6}"
_FILE = r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}"
ALLOWED = re.compile(
    rf"{DATABASE}|{SECRET}|runs/{_OWN}(\.log|/{_FILE})|networks/[0-9a-f]{{64}}\.(onnx|json)"
    rf"|compilations/{_OWN}/(console\.log|artifact/{_FILE})",
    re.ASCII,
)
"""The names of members besides the manifest and the checksums."""


@dataclass(frozen=True)
class Item:
    """A file to back up. One that is appended to is read up to `size` bytes."""

    name: str
    path: Path
    size: int
    root: Path | None = None
    """A folder that no engine writes to and that has the file; TUNEBOARD_VAR if it is None."""

    def open(self) -> BinaryIO:
        """Raises `FileNotFoundError` if it isn't there anymore, and `NotRegular` if an engine has replaced it."""
        return open_file(self.root or settings.VAR, self.path)

    def modified(self, file: BinaryIO) -> float | None:
        """When the opened file was last changed, in seconds since 1970; None if that isn't known."""
        return os.fstat(file.fileno()).st_mtime


@dataclass(frozen=True)
class StoredItem(Item):
    """A file that is in an object store. It may grow, and its chunks may be joined, but its first `size` bytes stay the same."""

    def open(self) -> BinaryIO:
        return SharedStore().opened(self.path)

    def modified(self, file: BinaryIO) -> None:  # noqa: ARG002
        return None


@dataclass
class Plan:
    """The files that belong to the rows of a snapshot."""

    items: list[Item]
    missing: list[str]
    """Files that rows tell of, but that aren't there, or aren't regular files."""
    runs: int
    trials: int


def record_sizes() -> dict[str, int]:
    """Bytes of each run's record file, by the run's folder."""
    found = {}
    for folder in (Path(settings.VAR) / "runs").glob("*"):
        for name in RECORD_FILES:
            with suppress(OSError):
                found[folder.name] = (folder / name).lstat().st_size
    return found


def plan(alias: str, sizes: dict[str, int]) -> Plan:
    """The files of the snapshot that this database connection reads. `sizes` are the record files' from before the snapshot.

    The database may be of an earlier version, so nothing but old columns is read.
    """
    connection = connections[alias]
    with connection.cursor() as cursor:
        tables = set(connection.introspection.table_names(cursor))
    made = Plan([], [], 0, 0)
    _add(made.items, SECRET, Path(settings.VAR) / SECRET)
    stored = _add_stored(made, alias) if "tuning_storedfile" in tables else set()
    if "tuning_run" in tables:
        _add_runs(made, alias, sizes, stored)
    if "tuning_compilation" in tables:
        _add_models(made, alias, stored)
        _add_libraries(made, alias, stored)
    return made


def _add_stored(made: Plan, alias: str) -> set[str]:
    """The names of all stored files. Those with chunks in the database are in its copy; others are added."""
    files = StoredFile.objects.using(alias)
    elsewhere = files.filter(pk__in=Chunk.objects.using(alias).exclude(url="").values("file")).order_by("pk")
    for name, size in elsewhere.values_list("pk", "size"):
        if ALLOWED.fullmatch(name):
            made.items.append(StoredItem(name, Path(settings.VAR) / name, size))
    return set(files.values_list("pk", flat=True))


def _add_runs(made: Plan, alias: str, sizes: dict[str, int], stored: AbstractSet[str]) -> None:
    rows = Run.everything.using(alias).order_by("pk").values_list("pk", "created_at", "trials_done")
    for pk, created_at, trials in rows.iterator():
        folder = Run(pk=pk, created_at=created_at).work_dir
        made.runs, made.trials = made.runs + 1, made.trials + trials
        if f"runs/{folder.name}.log" not in stored:
            console = Run(pk=pk, created_at=created_at).console_log
            _add(made.items, f"runs/{console.name}", console)
        for path in _files(folder):
            if f"runs/{folder.name}/{path.name}" in stored:
                continue
            if path.name in RECORD_FILES:
                _add_records(made, path, trials, sizes.get(folder.name, 0))
            else:
                _add(made.items, f"runs/{folder.name}/{path.name}", path)


def _add_records(made: Plan, path: Path, trials: int, before: int) -> None:
    """Add the record file without the trials that were measured after the snapshot.

    What was there before the snapshot stays, even if it is ahead of the database because a process was killed.
    """
    name = f"runs/{path.parent.name}/{path.name}"
    try:
        with open_here(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size != before:
                size = meta_schedule.size_up_to(file, trials, before)
    except NotRegular:
        made.missing.append(name)
    else:
        made.items.append(Item(name, path, size))


def _add_models(made: Plan, alias: str, stored: AbstractSet[str]) -> None:
    for sha256, kind in Network.objects.using(alias).exclude(sha256="").values_list("sha256", "kind").distinct():
        path = Network(sha256=sha256, kind=kind).file
        if f"networks/{path.name}" not in stored:
            _add(made.items, f"networks/{path.name}", path, made.missing)


def _add_libraries(made: Plan, alias: str, stored: AbstractSet[str]) -> None:
    rows = Compilation.objects.using(alias).order_by("pk").values_list("pk", "created_at", "sha256")
    for pk, created_at, sha256 in rows.iterator():
        compilation = Compilation(pk=pk, created_at=created_at)
        name = f"compilations/{compilation.folder.name}"
        if f"{name}/console.log" not in stored:
            _add(made.items, f"{name}/console.log", compilation.console_log)
        if sha256 is not None:  # Otherwise it is built, or being built, after the snapshot.
            for path in _files(compilation.artifact):
                if f"{name}/artifact/{path.name}" not in stored:
                    _add(made.items, f"{name}/artifact/{path.name}", path)
            if f"{name}/artifact/{compilation.library.name}" not in stored and not compilation.library.exists():
                made.missing.append(f"{name}/artifact/{compilation.library.name}")


def _files(folder: Path) -> Iterator[Path]:
    """The plain files directly in a folder, by name; none if there is no such folder."""
    try:
        entries: Iterable[os.DirEntry[str]] = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.is_file(follow_symlinks=False) and re.fullmatch(_FILE, entry.name):
            yield Path(entry)


def _add(items: list[Item], name: str, path: Path, missing: list[str] | None = None) -> None:
    try:
        items.append(Item(name, path, path.lstat().st_size))
    except FileNotFoundError:
        if missing is not None:
            missing.append(name)
