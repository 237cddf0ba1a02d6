"""A run's results as files.

A file is generated while it is sent, so the memory it takes doesn't depend on the run's size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from zipfile import ZIP_DEFLATED

import msgspec
from zipstream import ZipStream

from tuning.logs import meta_schedule
from tuning.models import KEEP_BEST, Record, Run, Task
from tuning.validation import Conflict, Invalid

from .console import Printed

if TYPE_CHECKING:
    import pyarrow as pa

PIECE_BYTES = 1 << 17
PIECE_ROWS = 20_000
QUICK = 1
"""zlib's fastest level: a higher one would disturb measurements on this machine's CPU."""

RecordsFormat = Literal["native", "jsonl"]
Which = Literal["best", "all"]
TableFormat = Literal["csv", "parquet"]
Pieces = Iterator[bytes]


@dataclass(frozen=True)
class File:
    """A file of a run; `name` is the part after the run's own name."""

    name: str
    content_type: str
    version: str
    """Changes with the content."""
    pieces: Pieces
    size: int | None = None
    """In bytes, if known in advance."""


class Entry(NamedTuple):
    """A trial and its record; `workload` and `record` are MetaSchedule's JSON."""

    task: Task
    trial: int
    latency_s: float | None
    error: str | None
    workload: bytes
    record: bytes


def record_file(run: Run, form: RecordsFormat, which: Which, *, k: int | None = None, task: int | None = None) -> File:
    """The best `k` records of each task (by default all that are kept), or the records of all trials.

    `native` is a zip of MetaSchedule's two files, `jsonl` has the lines that docs/api.md describes. Raises `Invalid`, or
    `Conflict` if there is no such record yet.
    """
    if which == "all" and k is not None:
        raise Invalid({"k": "Only for the best records: leave it out with which=all."})
    tasks = _tasks(run, task)
    entries = _best(tasks, k or KEEP_BEST) if which == "best" else _all(run, tasks)
    number = "" if k in (None, KEEP_BEST) else f"-{k}"
    name = f"{_part(task)}{which}{number}-records"
    version = f"{name} {run.trials_done}"
    if form == "native":
        return File(f"{name}.zip", "application/zip", version, _zip(entries))
    return File(f"{name}.jsonl", "application/jsonl", version, _joined(_json_lines(entries)))


def trial_file(run: Run, form: TableFormat, *, task: int | None = None) -> File:
    """The trials of one task, or of all, as a table. Raises `Invalid`, or `Conflict` if there are none yet."""
    tasks = _tasks(run, task)
    if not any(one.trials for one in tasks):
        raise Conflict("No trial has ended yet.")
    name = f"{_part(task)}trials.{form}"
    kind = "text/csv; charset=utf-8" if form == "csv" else "application/vnd.apache.parquet"
    return File(name, kind, f"{name} {run.trials_done}", _table(run, tasks, form))


def console_file(source: Printed, name: str = "console.log") -> File:
    """The console log so far. Raises `Conflict` if nothing has been printed yet."""
    log = source.console_log
    if not (log.exists() and (size := log.stat().st_size)):
        raise Conflict("Nothing has been printed yet.")
    version = f"console {size} {log.stat().st_mtime_ns}"
    return File(name, "text/plain; charset=utf-8", version, file_pieces(log, size), size)


def _tasks(run: Run, index: int | None) -> list[Task]:
    tasks = list(run.tasks.defer("tensorir", "args").order_by("index"))
    if index is None:
        return tasks
    if chosen := [task for task in tasks if task.index == index]:
        return chosen
    raise Invalid({"task": f"The run has no task {index}."})


def _part(task: int | None) -> str:
    return "" if task is None else f"task-{task}_"


def _best(tasks: list[Task], k: int) -> Iterator[Entry]:
    if not Record.objects.filter(task__in=tasks).exists():
        raise Conflict("There are no records yet: no trial has been valid so far.")
    return (_kept(task, record) for task in tasks for record in task.records.all()[:k])


def _kept(task: Task, record: Record) -> Entry:
    workload, own = msgspec.json.decode(record.text, type=tuple[msgspec.Raw, msgspec.Raw])
    return Entry(task, record.trial, record.latency_s, None, bytes(workload), bytes(own))


def _all(run: Run, tasks: list[Task]) -> Iterator[Entry]:
    if not any(task.trials for task in tasks):
        raise Conflict("There are no records yet: no trial has ended.")
    if not (run.work_dir / meta_schedule.RECORDS).exists():
        raise Conflict("The run's record files are not on this machine.")
    return _written(run, {task.pk: task for task in tasks})


def _written(run: Run, tasks: dict[int, Task]) -> Iterator[Entry]:
    """Line n of the record file is trial n. Its last lines may be of trials that aren't in the database yet."""
    trials = run.trials.filter(number__lte=run.trials_done).piecewise(
        "task_id", "latency_s", "error_kind", size=PIECE_ROWS
    )
    lines = meta_schedule.entries(run.work_dir, run.trials_done)
    for (number, key, latency_s, error), line in zip(chain.from_iterable(trials), lines, strict=False):
        if line is not None and key in tasks:
            yield Entry(tasks[key], number, latency_s, error, *line)


def _zip(entries: Iterable[Entry]) -> Pieces:
    """MetaSchedule's two files; the records refer to workloads by their line in `database_workload.json`."""
    lines: dict[bytes, int] = {}
    zipped = ZipStream(compress_type=ZIP_DEFLATED, compress_level=QUICK)
    # The records come first: they determine the workloads.
    zipped.add(_joined(_numbered(entries, lines)), meta_schedule.RECORDS)
    zipped.add(_joined(workload + b"\n" for workload in _keys(lines)), meta_schedule.WORKLOADS)
    return _joined(zipped)


def _numbered(entries: Iterable[Entry], lines: dict[bytes, int]) -> Pieces:
    for entry in entries:
        yield b"[%d,%b]\n" % (lines.setdefault(entry.workload, len(lines)), entry.record)


def _keys(lines: dict[bytes, int]) -> Pieces:
    yield from lines


def _json_lines(entries: Iterable[Entry]) -> Pieces:
    """The line of each task comes before its first record."""
    described: set[int] = set()
    for entry in entries:
        if entry.task.index not in described:
            described.add(entry.task.index)
            yield _line(_task_line(entry.task, entry.workload))
        yield _line(
            {
                "task": entry.task.index,
                "trial": entry.trial,
                "latency_s": entry.latency_s,
                "error": entry.error,
                "record": msgspec.Raw(entry.record),
            }
        )


def _task_line(task: Task, workload: bytes) -> dict[str, Any]:
    return {
        "task": task.index,
        "name": task.name,
        "weight": task.weight,
        "flop": task.flop,
        "workload_hash": task.workload_hash,
        "workload": msgspec.Raw(workload),
    }


def _line(value: dict[str, Any]) -> bytes:
    return msgspec.json.encode(value) + b"\n"


COLUMNS = ("number", "task", "task_name", "latency_s", "error", "short", "at_s", "nth", "improved")
"""Columns of the tables, named as in the API; `task_name` exists only here."""


def _table(run: Run, tasks: list[Task], form: TableFormat) -> Pieces:
    import pyarrow as pa
    from pyarrow.csv import CSVWriter
    from pyarrow.parquet import ParquetWriter

    about = {"run": str(run.pk), "network": run.network.name, "target": msgspec.json.encode(run.target).decode()}
    schema = _schema().with_metadata(about)
    writer: Callable[..., Any] = CSVWriter if form == "csv" else ParquetWriter
    sink = _Sink()
    with writer(pa.PythonFile(sink, mode="w"), schema) as table:
        names = {task.pk: cell(task.name) if form == "csv" else task.name for task in tasks}
        for batch in _batches(run, tasks, schema, names):
            table.write_batch(batch)
            yield sink.taken()
    yield sink.taken()


def cell(text: str) -> str:
    """The text as spreadsheets show it: they would run one that begins like a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _schema() -> pa.Schema:
    import pyarrow as pa

    number, seconds, text, flag = pa.int64(), pa.float64(), pa.string(), pa.bool_()
    kinds = (number, number, text, seconds, text, flag, seconds, number, flag)
    return pa.schema(list(zip(COLUMNS, kinds, strict=True)))


def _batches(run: Run, tasks: list[Task], schema: pa.Schema, names: dict[int, str]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    task_of = {task.pk: task for task in tasks}
    trials = run.trials.filter(number__lte=run.trials_done)
    if len(tasks) == 1:
        trials = trials.filter(task=tasks[0])
    columns = ("task_id", "latency_s", "error_kind", "short", "at_s", "nth", "improved")
    for rows in trials.piecewise(*columns, size=PIECE_ROWS):
        number, keys, *rest = zip(*rows, strict=True)
        of = [task_of[key] for key in keys]
        values = (number, [task.index for task in of], [names[task.pk] for task in of], *rest)
        yield pa.record_batch([list(column) for column in values], schema=schema)


class _Sink:
    """A file whose content is taken out while it is written."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, part: bytes) -> int:
        self._parts.append(bytes(part))
        return len(part)

    def flush(self) -> None:
        """Nothing is buffered."""

    def close(self) -> None:
        self.closed = True

    def taken(self) -> bytes:
        """What was written since the last call."""
        parts, self._parts = self._parts, []
        return b"".join(parts)


def file_pieces(path: Path, size: int) -> Pieces:
    """The first `size` bytes of a file that may be growing."""
    with path.open("rb") as file:
        while size and (piece := file.read(min(PIECE_BYTES, size))):
            size -= len(piece)
            yield piece


def _joined(parts: Iterable[bytes]) -> Pieces:
    """Joined to pieces that are large enough to be sent one by one."""
    gathered: list[bytes] = []
    size = 0
    for part in parts:
        gathered.append(part)
        size += len(part)
        if size >= PIECE_BYTES:
            yield b"".join(gathered)
            gathered, size = [], 0
    yield b"".join(gathered)
