"""Carries out a claimed import: makes a run of the records that each log has for each target, or removes what it made."""

from __future__ import annotations

import hashlib
import io
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO, cast

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from tuning import beneath
from tuning.logs import neutral
from tuning.logs.meta_schedule import WORKLOADS
from tuning.logs.neutral import Skipped, Trial
from tuning.logs.opening import Log, open_logs
from tuning.logs.sources import GIB, Limits, of_files
from tuning.models import BadLine, Import, Run, fingerprint, storable
from tuning.models.run import RunQuerySet
from tuning.notify.announce import announce_status
from tuning.storage import Away, store
from tuning.wording import internal_error, target_names

from .known import named, network_called, weights_in
from .run import About, ImportedRun, called

logger = logging.getLogger(__name__)
Status = Import.Status
LogFile = tuple[str, Path]
"""The name to show, which may have folders, and where the file is."""
RENEW_S = 1.0
BATCH = 10_000
"""Trials in one transaction, which bounds memory whatever the log's size."""
PIECE_BYTES = 1 << 20
CPU_BYTES = 16 << 20
"""An import may take `IMPORT_CPU_S` once more for every so many bytes of its files, packed as they are."""
TEXT = 2_000
"""Characters of a remark or a reason that are stored."""


class Refused(Exception):
    """There is nothing to import; the message says why."""


class Stopped(Exception):
    """The import was cancelled or taken away, or the worker shuts down."""


def carry_out(source: Import, files: Sequence[LogFile], shutdown: threading.Event) -> str:
    """Return the status in which the import ended; at shutdown it is queued again, and its files stay.

    Nothing is left of an import that didn't finish.
    """
    job = _Job(source, shutdown)
    try:
        for _, path in files:
            if path.parent == source.uploads:
                store().fetch(path)
        job.read(files)
        job.finish()
    except Stopped:
        discard(source)
        _stopped(source, shutdown)
    except (Refused, Away) as refused:
        discard(source)
        source.finish(to=Status.FAILED, error=str(refused), **{**job.told(), "results": []})
    except Exception as error:
        discard(source)
        source.finish(to=Status.FAILED, error=internal_error(error), **{**job.told(), "results": []})
        raise
    finally:
        if not Import.objects.filter(pk=source.pk, status=Status.QUEUED).exists():
            store().remove(source.uploads)
    return source.status


def discard(source: Import) -> None:
    """Remove the runs that an import made: nobody sees them from now on, and the sweep deletes their rows and files."""
    _remove(Run.everything.filter(imported_by=source))


def discard_left() -> None:
    """Remove the runs whose import isn't going on: its worker was killed, perhaps in the middle of its end."""
    _remove(Run.everything.filter(origin=Run.Origin.IMPORTED).exclude(imported_by__status__in=Import.LIVE))


def _remove(runs: RunQuerySet) -> None:
    runs.live().update(status=Run.Status.INTERRUPTED, deleted_at=Now(), purging=True, pinned=False)


def uploaded(source: Import) -> list[LogFile]:
    """The files of an upload, by their places in `Import.files`."""
    return [(file["name"], source.uploads / str(place)) for place, file in enumerate(source.files)]


def _stopped(source: Import, shutdown: threading.Event) -> None:
    if shutdown.is_set() and source.requeue(Status.RUNNING, where=source.hold):
        return
    source.finish(Status.CANCELLING, to=Status.CANCELLED)
    source.refresh_from_db(fields=("status",))


def open_log(path: Path) -> BinaryIO:
    """A file to import. It was found by a path without links, and may have been replaced since. Raises `OSError`."""
    root = settings.VAR if path.is_relative_to(settings.VAR) else Path(path.anchor)
    return beneath.open_file(root, path, names=beneath.ANY)


class _Counted(io.RawIOBase):
    """A file that tells how much of it was read."""

    def __init__(self, path: Path, tell: Callable[[int], None]) -> None:
        self._file = open_log(path)
        self._tell = tell

    def read(self, size: int = -1) -> bytes:
        piece = self._file.read(size)
        self._tell(len(piece))
        return piece

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()


class _Job:
    def __init__(self, source: Import, shutdown: threading.Event) -> None:
        self.source = source
        self.shutdown = shutdown
        self.renewed = time.monotonic()
        self.began_s = time.thread_time()
        self.cpu_s = settings.IMPORT_CPU_S * (1 + source.bytes_total / CPU_BYTES)
        self.bytes = self.lines = self.records = self.bad = 0
        self.runs: list[ImportedRun] = []
        self.results: list[dict[str, Any]] = []
        self.skipped: list[Skipped] = []
        self.remarks: list[dict[str, Any]] = []
        self.used_weights: set[str] = set()

    def read(self, files: Sequence[LogFile]) -> None:
        """Make the runs. Raises `Refused` and `Stopped`."""
        limits = Limits(unpacked_bytes=int(settings.IMPORT_UNPACKED_GB * GIB), on_read=self._tick)
        opened = open_logs(of_files([(name, self._opener(path)) for name, path in files], limits))
        self.skipped += opened.skipped
        for log in opened.logs:
            self._read(log)
        if not self.results:
            raise Refused(
                f"No run was made: there is no record of a known format in {_named(files)}{self._first_bad()}"
            )
        self._remark_weights()

    def finish(self) -> None:
        """End import and runs in one transaction. Raises `Stopped` if the import was taken away."""
        with transaction.atomic():
            ended = all(made.end() for made in self.runs)
            total = self.source.bytes_total
            if not (ended and self.source.finish(Status.RUNNING, to=Status.FINISHED, **self.told(), bytes_read=total)):
                raise Stopped
        for made in self.runs:
            announce_status(made.run)

    def told(self) -> dict[str, Any]:
        """What the import has to say, as columns."""
        return {
            "lines": self.lines,
            "records": self.records,
            "bad_lines": self.bad,
            "results": self.results,
            "skipped": [{"file": one.file, "reason": one.reason[:TEXT]} for one in self.skipped],
            "remarks": self.remarks,
        }

    def _read(self, log: Log) -> None:
        digest = self._surveyed(log)
        self.lines, self.records, self.bad = self.lines + log.lines, self.records + log.records, self.bad + log.bad
        self.remarks += [{"file": one.file, "line": one.line, "text": storable(one.text)[:TEXT]} for one in log.remarks]
        if not log.records:
            self.skipped.append(Skipped(log.name, f"none of its {log.lines:,} lines is a record that can be read"))
            return
        begun = [run for about in self._abouts(log, digest) if (run := self._begun(about)) is not None]
        self.runs += begun
        if begun:
            self._fill(log, begun)

    def _surveyed(self, log: Log) -> str:
        """The digest of the log, of which afterwards tasks, sessions and counts are known; its bad lines are stored."""
        for batch in log.batches():
            self._keep([line for line in batch if not isinstance(line, Trial)])
            if self.lines + log.lines > settings.IMPORT_LINES:
                raise Refused(f"There are more than {settings.IMPORT_LINES:,} lines (TUNEBOARD_IMPORT_LINES).")
        return log.digest()

    def _keep(self, bad: Sequence[neutral.BadLine]) -> None:
        room = BadLine.KEPT - BadLine.objects.filter(imported_by=self.source).count() if bad else 0
        BadLine.objects.bulk_create(
            BadLine(imported_by=self.source, file=one.file[-500:], line=one.line, reason=storable(one.reason)[:TEXT])
            for one in bad[: max(0, room)]
        )

    def _first_bad(self) -> str:
        """What is wrong with the first line that can't be read, if there is any."""
        line = BadLine.objects.filter(imported_by=self.source).order_by("pk").first()
        return f" {line.file}, line {line.line}: {line.reason}." if line else ""

    def _abouts(self, log: Log, digest: str) -> Iterator[About]:
        """The runs that the log is, one a target."""
        targets: dict[str, list[neutral.Task]] = {}
        for task in log.tasks.values():
            targets.setdefault(fingerprint(task.target), []).append(task)
        options, project = self.source.options, self.source.project
        names = target_names([tasks[0].target or {} for tasks in targets.values()])
        for (key, tasks), target in zip(targets.items(), names, strict=True):
            name = options.get("name") or _name(log)
            shown = f"{name} · {target}" if len(targets) > 1 else name
            own = hashlib.sha256(f"{digest} {key}".encode()).hexdigest()
            network = network_called(options.get("network") or "", project, tasks)
            weights = {**weights_in(network), **(options.get("weights") or {})}
            yield About(self.source, log, shown[:200], network, own, named(tasks, project, network), weights)

    def _begun(self, about: About) -> ImportedRun | None:
        """The new run; None if its records are known, and weren't to be imported again."""
        known = Run.objects.filter(project=about.source.project, records_digest=about.digest).order_by("pk").first()
        use = None if known is None or self.source.options.get("again") else known
        made = None if use else ImportedRun.begin(about)
        if made and made.about.log.engine == "meta_schedule":
            _copy_workloads(about.log, made.run.work_dir)
        self.used_weights |= {name for task in about.tasks for name in called(task)}
        run = made.run if made else use
        assert run is not None
        self.results.append({"log": about.log.name, "engine": about.log.engine, "run": run.pk, "known": made is None})
        return made

    def _fill(self, log: Log, runs: Sequence[ImportedRun]) -> None:
        run_of = {task.key: run for run in runs for task in run.about.tasks}
        try:
            for batch in log.batches():
                for line in batch:
                    if isinstance(line, Trial) and (run := run_of.get(line.task)):
                        run.take(line)
                for run in runs:
                    if len(run.pending) >= BATCH:
                        run.flush()
            for run in runs:
                run.flush()
        finally:
            for run in runs:
                run.file.close()

    def _remark_weights(self) -> None:
        given = self.source.options.get("weights") or {}
        if unknown := [name for name in given if name not in self.used_weights]:
            text = f"No task is called {', '.join(sorted(unknown)[:10])}: {len(unknown):,} of the weights weren't used."
            self.remarks.append({"file": "", "line": 0, "text": text})

    def _opener(self, path: Path) -> Callable[[], BinaryIO]:
        return lambda: cast("BinaryIO", _Counted(path, self._count))

    def _count(self, size: int) -> None:
        self.bytes += size
        self._tick()  # A packed file may have much that unpacks to nothing.

    def _tick(self) -> None:
        """Renew the lease and see whether to stop. Raises `Refused` and `Stopped`.

        Everything is read twice, so half of what was read is progress.
        """
        if self.shutdown.is_set():
            raise Stopped
        if time.thread_time() - self.began_s > self.cpu_s:
            raise Refused(f"It takes more than {self.cpu_s:,.0f} s of CPU time (TUNEBOARD_IMPORT_CPU_S).")
        if time.monotonic() < self.renewed + RENEW_S:
            return
        self.renewed = time.monotonic()
        read = min(self.bytes // 2, self.source.bytes_total)
        if not self.source.renew(bytes_read=read) or self.source.status != Status.RUNNING:
            raise Stopped


def _named(files: Sequence[LogFile]) -> str:
    names = [name for name, _ in files]
    return f"{names[0]}." if len(names) == 1 else f"these {len(names)} files."


def _name(log: Log) -> str:
    """The log's file name, or the folder of a MetaSchedule database, whose files are all called the same."""
    folder, _, file = log.name.rpartition("/")
    stem = file.removesuffix(".gz").removesuffix(".json")
    if log.engine == "meta_schedule" and stem.startswith("database_"):
        return folder.rpartition("/")[2] or "MetaSchedule database"
    return stem or file


def _copy_workloads(log: Log, folder: Path) -> None:
    """The workload file, to whose lines the records refer."""
    if log.database.workloads is None:
        return
    with log.database.workloads.open() as stream, closing(store().written(folder / WORKLOADS)) as copy:
        while piece := stream.read(PIECE_BYTES):
            copy.write(piece)
            copy.flush()
