"""Records in the format of their engine, or as JSON lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple
from zipfile import ZIP_DEFLATED

import msgspec
from zipstream import ZipStream

from tuning.logs import meta_schedule
from tuning.models import KEEP_BEST, Record, Run, Task
from tuning.reads.files import File, Pieces, joined
from tuning.records import why_refused
from tuning.storage import store
from tuning.validation import Conflict, Invalid

from .chosen import PIECE_ROWS, prefix, tasks_of

QUICK = 1
"""zlib's fastest level: a higher one would disturb measurements on this machine's CPU."""
NOTHING = (b"", b"#")
"""What lines begin with that stand in for lost records."""

RecordsFormat = Literal["native", "jsonl"]
Which = Literal["best", "all"]


class Entry(NamedTuple):
    """A trial and its record as the engine writes it. Only MetaSchedule has `workload` apart from the record; both are its JSON."""

    task: Task
    trial: int
    latency_s: float | None
    error: str | None
    record: bytes
    workload: bytes = b""


def record_file(run: Run, form: RecordsFormat, which: Which, *, k: int | None = None, task: int | None = None) -> File:
    """The best `k` records of each task (by default all that are kept), or the records of all trials.

    `native` is what the engine's own tools read: a zip of MetaSchedule's two files, or one log. `jsonl` has the lines that
    docs/api.md describes. Raises `Invalid`, or `Conflict` if there is no such record yet.
    """
    if which == "all" and k is not None:
        raise Invalid({"k": "Only for the best records: leave it out with which=all."})
    tasks = tasks_of(run, task)
    found = best(tasks, k or KEEP_BEST) if which == "best" else written(run, tasks)
    number = "" if k in (None, KEEP_BEST) else f"-{k}"
    name = f"{prefix(task)}{which}{number}-records"
    version = f"{name} {run.trials_done}"
    if form == "native":
        return native(name, version, found, zipped=has_workloads(run))
    return File(f"{name}.jsonl", "application/jsonl", version, joined(_json_lines(_usable(found))))


def native(name: str, version: str, found: Iterable[Entry], *, zipped: bool) -> File:
    """The records as TVM reads them: MetaSchedule's two files in a zip, or one log."""
    if zipped:
        return File(f"{name}.zip", "application/zip", version, _zip(_usable(found)))
    return File(f"{name}.json", "application/jsonl", version, log(found))


def _usable(found: Iterable[Entry]) -> Iterator[Entry]:
    """The records that can be used, whenever they were stored: TVM runs what they say on the machine of the user who downloads them."""
    for entry in found:
        whole = b"[%b,%b]" % (entry.workload, entry.record) if entry.workload else entry.record
        if why_refused(entry.task.run.engine, whole.decode()) is None:
            yield entry


def archive() -> ZipStream:
    """An empty zip."""
    return ZipStream(compress_type=ZIP_DEFLATED, compress_level=QUICK)


def log(found: Iterable[Entry]) -> Pieces:
    """One line a record."""
    return joined(entry.record + b"\n" for entry in _usable(found))


def best(tasks: list[Task], k: int) -> Iterator[Entry]:
    """The best `k` records of each task. Raises `Conflict` if there are none."""
    if not Record.objects.filter(task__in=tasks).exists():
        raise Conflict("There are no records yet: no trial has been valid so far.")
    return (kept(task, record) for task in tasks for record in task.records.best_first()[:k])


def kept(task: Task, record: Record) -> Entry:
    """An entry of a record in the database."""
    if not has_workloads(task.run):
        return Entry(task, record.trial, record.latency_s, None, record.text.encode())
    workload, own = msgspec.json.decode(record.text, type=tuple[msgspec.Raw, msgspec.Raw])
    return Entry(task, record.trial, record.latency_s, None, bytes(own), bytes(workload))


def written(run: Run, tasks: list[Task]) -> Iterator[Entry]:
    """The records of all trials of these tasks, from the run's record file. Raises `Conflict` if there are none."""
    if not any(task.trials for task in tasks):
        raise Conflict("There are no records yet: no trial has ended.")
    if store().length(run.record_file) is None:
        raise Conflict("The run's record files are missing.")
    return _written(run, {task.pk: task for task in tasks})


def has_workloads(run: Run) -> bool:
    """Whether its records refer to a file of workloads, which a log may have come without."""
    return run.is_meta_schedule and (run.is_ours or store().length(run.work_dir / meta_schedule.WORKLOADS) is not None)


def _written(run: Run, tasks: dict[int, Task]) -> Iterator[Entry]:
    """Line n of the record file is trial n. Its last lines may be of trials that aren't in the database yet."""
    trials = run.trials.filter(number__lte=run.trials_done).piecewise(
        "task_id", "latency_s", "error_kind", size=PIECE_ROWS
    )
    lines = _database_lines(run) if has_workloads(run) else _log_lines(run.record_file, run.trials_done)
    for (number, key, latency_s, error), line in zip(chain.from_iterable(trials), lines, strict=False):
        if line is not None and key in tasks:
            yield Entry(tasks[key], number, latency_s, error, *line)


def _database_lines(run: Run) -> Iterator[tuple[bytes, bytes] | None]:
    with store().opened(run.work_dir / meta_schedule.WORKLOADS) as file:
        workloads = file.read()
    with store().opened(run.record_file) as records:
        for pair in meta_schedule.entries(workloads, records, run.trials_done):
            yield None if pair is None else (pair[1], pair[0])


def _log_lines(path: Path, count: int) -> Iterator[tuple[bytes] | None]:
    """Up to `count` lines; None for a lost record. The file may be growing, so an incomplete last line is left out."""
    with store().opened(path) as file:
        for line in islice(file, count):
            if not line.endswith(b"\n"):
                return
            yield None if line.strip()[:1] in NOTHING else (line.rstrip(b"\r\n"),)


def _zip(found: Iterable[Entry]) -> Pieces:
    """MetaSchedule's two files; the records refer to workloads by their line in `database_workload.json`."""
    lines: dict[bytes, int] = {}
    zipped = archive()
    # The records come first: they determine the workloads.
    zipped.add(joined(_numbered(found, lines)), meta_schedule.RECORDS)
    zipped.add(joined(workload + b"\n" for workload in _keys(lines)), meta_schedule.WORKLOADS)
    return joined(zipped)


def _numbered(found: Iterable[Entry], lines: dict[bytes, int]) -> Pieces:
    for entry in found:
        yield b"[%d,%b]\n" % (lines.setdefault(entry.workload, len(lines)), entry.record)


def _keys(lines: dict[bytes, int]) -> Pieces:
    yield from lines


def _json_lines(found: Iterable[Entry]) -> Pieces:
    """The line of each task comes before its first record."""
    described: set[int] = set()
    for entry in found:
        if entry.task.index not in described:
            described.add(entry.task.index)
            yield _line(_task_line(entry))
        yield _line(
            {
                "task": entry.task.index,
                "trial": entry.trial,
                "latency_s": entry.latency_s,
                "error": entry.error,
                "record": msgspec.Raw(entry.record),
            }
        )


def _task_line(entry: Entry) -> dict[str, Any]:
    task = entry.task
    return {
        "task": task.index,
        "name": task.name,
        "weight": task.weight,
        "flop": task.flop,
        "workload_hash": task.workload_hash,
        "workload": msgspec.Raw(entry.workload) if entry.workload else task.workload,
    }


def _line(value: dict[str, Any]) -> bytes:
    return msgspec.json.encode(value) + b"\n"
