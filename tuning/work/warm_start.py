"""The records that a run starts from: those of the run that it continues, then those of its project's other runs."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tuning.engines.wire.engines import ENGINES
from tuning.engines.wire.options.meta_schedule import Options
from tuning.engines.wire.protocol import AnyTaskInfo, KnownRecord, WarmStart
from tuning.logs.meta_schedule import CONTINUED, WORKLOADS
from tuning.models import Run
from tuning.reads.gaining.similar import similar_workloads
from tuning.reads.library import known_records, tvm
from tuning.storage import store
from tuning.storage.local import open_here, remove_here

MOST = 16
"""Records per task."""


def warm_starts(run: Run) -> bool:
    """Whether its engine waits for records of earlier runs."""
    return _from_others(run) or run.continues_id is not None or _from_similar(run)


def warm_start(run: Run, tasks: Sequence[AnyTaskInfo]) -> WarmStart:
    """The best records of earlier runs for the run's chosen tasks and exactly its target."""
    index_of = {task.workload_hash: task.index for task in tasks if task.chosen}
    known = partial(known_records, index_of, run.target, run.project_id, most=MOST)
    continued = {} if run.continues is None else known(of=run.continues)
    others = known(but=run) if _from_others(run) else {}
    imported = known(but=run, imported=True) if _from_others(run) and _takes_imported(run) else {}
    return WarmStart(
        [
            KnownRecord(index_of[shash], record.run, record.text, record.latency_s, not record.is_imported)
            for shash in index_of
            for few in (continued, others, imported)
            for record in few.get(shash, [])
            if few is continued or record.run != run.continues_id
        ],
        _similar(run, tasks) if _from_similar(run) else [],
    )


def _similar(run: Run, tasks: Sequence[AnyTaskInfo]) -> list[KnownRecord]:
    """For each chosen task, the best record of each of the most similar workloads of other runs."""
    found = similar_workloads(run, [task for task in tasks if task.chosen])
    hashes = {shash for few in found.values() for shash in few}
    known = known_records(hashes, run.target, run.project_id, but=run)
    records = ((index, one) for index, few in found.items() for shash in few for one in known.get(shash, []))
    return [KnownRecord(index, one.run, one.text, one.latency_s) for index, one in records if one.tvm == tvm()]


def bring_continued(run: Run) -> int | None:
    """Copy the record files of the run that it continues into its folder, unless they are there; return that run's number, if any.

    Raises `OSError` if it has none.
    """
    source, folder = run.continues, run.work_dir / CONTINUED
    if source is None:
        return None
    if folder.is_symlink() or not folder.is_dir():
        run.work_dir.mkdir(parents=True, exist_ok=True)
        remove_here(folder)
        half = run.work_dir.with_name(f"{run.work_dir.name}.{CONTINUED}")  # Where no engine writes.
        remove_here(half)
        half.mkdir()
        for path in (source.work_dir / WORKLOADS, source.record_file):
            _copy(path, half / path.name, source)
        half.rename(folder)
    return source.pk


def _copy(path: Path, to: Path, source: Run) -> None:
    try:
        with store().opened(path) as file, open_here(to, "xb") as copy:
            shutil.copyfileobj(file, copy)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"run {source.pk}, which it continues, has no {path.name}") from error


def _from_similar(run: Run) -> bool:
    options = ENGINES[run.engine].options_of(run.options)
    return isinstance(options, Options) and options.transfer


def _takes_imported(run: Run) -> bool:
    return ENGINES[run.engine].options_of(run.options).imported_records


def _from_others(run: Run) -> bool:
    return ENGINES[run.engine].options_of(run.options).warm_start
