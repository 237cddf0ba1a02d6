"""Trials as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from tuning.models import Run, Task
from tuning.reads.files import File, Pieces, cell
from tuning.validation import Conflict

from .chosen import PIECE_ROWS, prefix, tasks_of

if TYPE_CHECKING:
    import pyarrow as pa

TableFormat = Literal["csv", "parquet"]


def trial_file(run: Run, form: TableFormat, *, task: int | None = None) -> File:
    """The trials of one task, or of all, as a table. Raises `Invalid`, or `Conflict` if there are none yet."""
    tasks = tasks_of(run, task)
    if not any(one.trials for one in tasks):
        raise Conflict("No trial has ended yet.")
    name = f"{prefix(task)}trials.{form}"
    kind = "text/csv; charset=utf-8" if form == "csv" else "application/vnd.apache.parquet"
    return File(name, kind, f"{name} {run.trials_done}", _table(run, tasks, form))


COLUMNS = ("number", "task", "task_name", "latency_s", "error", "short", "at_s", "nth", "improved", "noisy", "machine")
"""Columns of the tables, named as in the API; `task_name` exists only here."""


def _table(run: Run, tasks: list[Task], form: TableFormat) -> Pieces:
    import pyarrow as pa
    from pyarrow.csv import CSVWriter
    from pyarrow.parquet import ParquetWriter

    network = run.network_name or "not recorded"
    about = {"run": str(run.pk), "network": network, "target": msgspec.json.encode(run.target).decode()}
    schema = _schema().with_metadata(about)
    writer: Callable[..., Any] = CSVWriter if form == "csv" else ParquetWriter
    sink = _Sink()
    with writer(pa.PythonFile(sink, mode="w"), schema) as table:
        shown = cell if form == "csv" else str
        names = {task.pk: shown(task.name) for task in tasks}
        machines = {key: shown(name) for key, name in run.measurers().names().items()}
        for batch in _batches(run, tasks, schema, names, machines):
            table.write_batch(batch)
            yield sink.taken()
    yield sink.taken()


def _schema() -> pa.Schema:
    import pyarrow as pa

    number, seconds, text, flag = pa.int64(), pa.float64(), pa.string(), pa.bool_()
    kinds = (number, number, text, seconds, text, flag, seconds, number, flag, flag, text)
    return pa.schema(list(zip(COLUMNS, kinds, strict=True)))


def _batches(
    run: Run, tasks: list[Task], schema: pa.Schema, names: dict[int, str], machines: dict[int | None, str]
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    task_of = {task.pk: task for task in tasks}
    trials = run.trials.filter(number__lte=run.trials_done)
    if len(tasks) == 1:
        trials = trials.filter(task=tasks[0])
    columns = ("task_id", "latency_s", "error_kind", "short", "at_s", "nth", "improved", "noisy", "machine_id")
    for rows in trials.piecewise(*columns, size=PIECE_ROWS):
        number, keys, *rest, measurers = zip(*rows, strict=True)
        of = [task_of[key] for key in keys]
        values = (
            number,
            [task.index for task in of],
            [names[task.pk] for task in of],
            *rest,
            map(machines.get, measurers),
        )
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
