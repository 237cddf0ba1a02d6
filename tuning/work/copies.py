"""What a run's folder has is stored while it is tuned, so that any machine can show the run and go on with it.

The folder is the working copy of the machine that tunes. Where the store is that machine's own disk, there is nothing to do.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from django.conf import settings

from tuning.beneath import NotRegular
from tuning.logs.meta_schedule import WORKLOADS
from tuning.models import Run
from tuning.storage import store
from tuning.storage.local import open_here, remove_here, size_here

logger = logging.getLogger(__name__)
PIECE_BYTES = 4 << 20
SOME_LINES = 1000


@dataclass(frozen=True)
class _Place:
    """How much of a file is stored."""

    offset: int = 0
    lines: int = 0


class Growing:
    """A local file to which this process or its child appends, and which is stored bit by bit in a shared store."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = self._next = _Place()
        self._sure = False

    def add(self) -> bool:
        """Store what was appended, some MiB at most; whether there was anything. Raises `Moved`."""
        self._make_sure()
        piece = self._read(PIECE_BYTES)
        try:
            self._append(piece)
        except Exception:
            self.undone()
            raise
        self.committed()
        return bool(piece)

    def add_all(self) -> None:
        """Store all that was appended. Raises `Moved`."""
        while self.add():
            pass

    def add_lines(self, upto: int | None = None) -> bool:
        """Store whole lines in the transaction that is going on, up to this number of them; whether there are as many.

        Call `committed` or `undone` after it.
        """
        self._make_sure()
        while (wanted := SOME_LINES if upto is None else min(SOME_LINES, upto - self._next.lines)) > 0:
            lines = self._lines(wanted)
            self._append(b"".join(lines), len(lines))
            if len(lines) < wanted:
                break
        return upto is None or self._next.lines >= upto

    def committed(self) -> None:
        """The transaction has been committed."""
        self._known = self._next

    def undone(self) -> None:
        """The transaction failed, unless the connection broke just after it was committed: look at what is stored."""
        self._next, self._sure = self._known, False

    def _make_sure(self) -> None:
        """Count the lines that are stored beyond those that are known."""
        if self._sure:
            return
        size, lines = store().stored(self._path), self._known.lines
        if size > self._known.offset:
            lines += self._newlines(self._known.offset, size)
        self._known = self._next = _Place(size, lines)
        self._sure = True

    def _newlines(self, start: int, stop: int) -> int:
        with open_here(self._path) as file:
            file.seek(start)
            pieces = iter(lambda: file.read(min(PIECE_BYTES, stop - file.tell())), b"")
            return sum(piece.count(b"\n") for piece in pieces)

    def _read(self, size: int) -> bytes:
        try:
            with open_here(self._path) as file:
                file.seek(self._next.offset)
                return file.read(size)
        except FileNotFoundError:
            return b""

    def _lines(self, count: int) -> list[bytes]:
        """The next lines that have an end, at most so many."""
        try:
            with open_here(self._path) as file:
                file.seek(self._next.offset)
                return [line for line in islice(file, count) if line.endswith(b"\n")]
        except FileNotFoundError:
            return []

    def _append(self, data: bytes, lines: int = 0) -> None:
        if data:
            store().append(self._path, self._next.offset, data)
            self._next = _Place(self._next.offset + len(data), self._next.lines + lines)


class RecordCopy:
    """A run's record files: line n of the stored file is trial n of the database, always."""

    def __init__(self, run: Run) -> None:
        self._records = Growing(run.record_file)
        self._workloads = Growing(run.work_dir / WORKLOADS) if run.is_meta_schedule else None

    def add(self, trials: int) -> bool:
        """Store the lines of so many trials, in the transaction that stores the trials; whether there are as many."""
        if self._workloads:
            self._workloads.add_lines()
        return self._records.add_lines(trials)

    def committed(self) -> None:
        """The transaction has been committed."""
        for file in filter(None, (self._workloads, self._records)):
            file.committed()

    def undone(self) -> None:
        """The transaction may have failed."""
        for file in filter(None, (self._workloads, self._records)):
            file.undone()


def bring(run: Run) -> None:
    """Make the run's folder what is stored, unless it is ahead of it: another machine may have gone on meanwhile. Raises `OSError`."""
    for path in _files(run):
        store().restore(path)


def rescue_console(run: Run) -> None:
    """Move output that an earlier version wrote into the engine's folder to where no engine writes. Raises `OSError`.

    If it is interrupted, the next call goes on.
    """
    before, now = run.console_log_before, run.console_log
    try:
        with store().opened(before) as output:
            at = output.seek(store().stored(now))
            while piece := output.read(PIECE_BYTES):
                store().append(now, at, piece)
                at += len(piece)
    except FileNotFoundError:
        return
    except NotRegular as refused:
        logger.warning("Run %s: %s It is removed.", run.pk, refused)
    store().remove(before)


def release(run: Run) -> None:
    """Remove the run's files here if all of them are stored: the copies would outlive a run that another machine removes."""
    if all(store().stored(path) == _size_of_copy(path) for path in _files(run)):
        _remove_copies(run)


def release_left() -> None:
    """Remove what a crash has left here of runs that have ended: copies of files that are stored. Call it while nothing is tuned here.

    What is ahead of the store, or differs, stays: nobody else has it.
    """
    if not store().is_shared:
        return
    folders = {path.name: path for path in (settings.VAR / "runs").glob("*") if path.is_dir() and not path.is_symlink()}
    keys = {int(name.partition("-")[0]) for name in folders if name.partition("-")[0].isdecimal()}
    for run in Run.everything.filter(pk__in=keys, status__in=Run.ENDED):
        if run.work_dir.name in folders and _is_stored(run):
            _remove_copies(run)


def _remove_copies(run: Run) -> None:
    """The folder goes last: by it `release_left` finds the run again."""
    remove_here(run.console_log)
    remove_here(run.work_dir)


def _size_of_copy(path: Path) -> int:
    """Bytes of a local file; none for what an engine put in its place, which nobody needs."""
    with suppress(NotRegular):
        return size_here(path) or 0
    return 0


def _is_stored(run: Run) -> bool:
    """Whether all that the run's folder has is stored; not if that can't be told now, since an object store is away."""
    there = [path for path in _files(run) if os.path.lexists(path)]
    try:
        return bool(there) and all(map(store().holds, there))
    except OSError as error:
        logger.warning("The copies of run %s stay here: %s", run.pk, error)
        return False


def _files(run: Run) -> tuple[Path, ...]:
    return run.record_file, run.work_dir / WORKLOADS, run.console_log
