"""Measures the best records of several runs in turn, in one job on one device."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import datetime
from statistics import fmean
from typing import Any, NamedTuple, Union

import msgspec
from django.conf import settings

from tuning.engines.wire.compiling import BestRecord
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.side_by_side.messages import Again, Doing, InTurn, MeasureInTurn
from tuning.host import sandbox
from tuning.models import Machine, MeasuredAgainDict, Run, SideBySide, Task
from tuning.wording import internal_error

from .best_records import best_by_function

logger = logging.getLogger(__name__)
Status = SideBySide.Status
MEASURER = "tuning.engines.oneshot.side_by_side"
"""The program of the child process."""
PACE_S = 0.5
"""Minimum time between two updates of the same phase's progress."""


class Entry(NamedTuple):
    """A run's best record for a function of the network (`Task.function`), and the place of its schedule among those that are measured."""

    function: str
    run: int
    trial: int
    place: int


def carry_out(row: SideBySide, shutdown: threading.Event) -> str:
    """Return the status that results; at shutdown it is queued again. `gone` if it was deleted meanwhile, with a run of its."""
    job = _Job(row, shutdown)
    try:
        job.measure()
    except sandbox.Abandoned:
        job.abandon()
    except (Refused, sandbox.Died) as refused:
        job.fail(str(refused))
    except OSError as error:
        job.fail(f"Its temporary files can't be written: {error}.")
    except Exception as error:
        job.fail(internal_error(error))
        raise
    return SideBySide.objects.filter(pk=row.pk).values_list("status", flat=True).first() or "gone"


def chosen(best: Mapping[int, Mapping[str, BestRecord]]) -> tuple[list[Entry], list[str]]:
    """What stands beside what, and the records to measure, given each run's best by function.

    Only functions of which all runs have a record are measured, and identical schedules once.
    """
    first = next(iter(best.values()))
    shared = [function for function in first if all(function in records for records in best.values())]
    entries: list[Entry] = []
    texts: list[str] = []
    places: dict[bytes, int] = {}
    for function in shared:
        for run, records in best.items():
            record = records[function]
            schedule = _schedule(record.text)
            if schedule not in places:
                places[schedule] = len(texts)
                texts.append(record.text)
            entries.append(Entry(function, run, record.trial, places[schedule]))
    return entries, texts


def _schedule(text: str) -> bytes:
    """What decides what is built of a record: all of it but what was measured."""
    workload, (trace, _, target, arguments) = msgspec.json.decode(
        text, type=tuple[msgspec.Raw, tuple[msgspec.Raw, msgspec.Raw, msgspec.Raw, msgspec.Raw]]
    )
    return b"\n".join(bytes(part) for part in (workload, trace, target, arguments))


class _Job:
    def __init__(self, row: SideBySide, shutdown: threading.Event) -> None:
        self.row = row
        self.shutdown = shutdown
        self.shown_at = 0.0
        self.load = _Load(row)

    def measure(self) -> None:
        """What was measured is stored with the end. Raises `Refused` if that is nothing."""
        runs = list(self.row.runs.order_by("pk"))
        entries, texts = chosen({run.pk: best_by_function(run) for run in runs})
        if not entries:
            raise Refused("There is no task of which each of these runs has a valid record.")
        found = self._answer(_question(runs, entries, texts))
        if all(one.error for one in found.records):
            raise Refused(f"None of the records could be measured. The first: {found.records[0].error}")
        measured = [_measured(entry, found.records[entry.place]) for entry in entries]
        values: dict[str, Any] = {"measured": measured, "versions": found.versions, **self.load.told()}
        if not self.row.finish(Status.RUNNING, to=Status.FINISHED, **values):
            raise sandbox.Abandoned

    def abandon(self) -> None:
        """End or requeue it: it was cancelled, taken away, or the worker is shutting down."""
        if self.row.finish(Status.CANCELLING, to=Status.CANCELLED):
            return
        if self.shutdown.is_set():
            self.row.requeue(Status.RUNNING, where=self.row.hold)
        else:
            logger.warning("SideBySide %s was taken away before it ended.", self.row.pk)

    def fail(self, error: str) -> None:
        """Store why there is no result, unless the user cancelled meanwhile."""
        if not self.row.finish(Status.RUNNING, to=Status.FAILED, error=error):
            self.abandon()

    def _answer(self, question: MeasureInTurn) -> InTurn:
        """Raises `Refused` and `sandbox.Abandoned`."""
        limits = sandbox.Limits(settings.COMPILE_S, "TUNEBOARD_COMPILE")
        kinds: Any = Union[Doing, InTurn]
        with closing(sandbox.ask(MEASURER, question, kinds, self._go_on, limits=limits)) as answers:
            answer: Any
            for answer in answers:
                if isinstance(answer, InTurn):
                    return answer
                self._show(answer)
        raise Refused("The process ended without an answer.")

    def _go_on(self, _step: str) -> bool:
        return not self.shutdown.is_set() and self.row.renew() and self.row.status == Status.RUNNING

    def _show(self, doing: Doing) -> None:
        if doing.phase != self.row.phase or time.monotonic() > self.shown_at + PACE_S:
            self.row.phase, self.shown_at = doing.phase, time.monotonic()
            self.row.held().update(phase=doing.phase, progress=doing.progress)
        if doing.phase == "measuring" and doing.progress:  # At its beginning, the sample is of the builds.
            self.load.look()


class _Load:
    """What others' processes use of the machine that measures, by its samples."""

    def __init__(self, row: SideBySide) -> None:
        self._machine = Machine.objects.alive().filter(side_by_sides=row)
        self._samples: dict[datetime, float] = {}
        self._cpus: int | None = None

    def told(self) -> dict[str, Any]:
        """The columns of the row."""
        return {"others_cores": fmean(self._samples.values()) if self._samples else None, "cpus": self._cpus}

    def look(self) -> None:
        """Take the machine's newest sample; one that it has told before counts once."""
        for heard_at, load in self._machine.values_list("heartbeat_at", "load"):
            if (others := load.get("others_cores")) is not None:
                self._samples[heard_at], self._cpus = others, load.get("cpus")


def _question(runs: Sequence[Run], entries: Sequence[Entry], texts: Sequence[str]) -> MeasureInTurn:
    cold_bytes = _cold_bytes(runs)
    of_places = {entry.place: cold_bytes[entry.function] for entry in entries}
    target = runs[0].target
    return MeasureInTurn(
        target=target,
        records=list(texts),
        seconds=settings.BENCHMARK_S,
        cold_bytes=[of_places[place] for place in range(len(texts))],
        quietly=False,
        **sandbox.compile_limits(target),
    )


def _cold_bytes(runs: Sequence[Run]) -> dict[str, int]:
    """By function, how cold all of its records are measured: as cold as in any of the runs.

    Runs of earlier versions count only where no other one tells it of the function itself.
    """
    found: dict[str, list[int | None]] = defaultdict(list)
    for task in Task.objects.filter(run__in=runs).only("computes", "workload_hash", "cold_bytes"):
        found[task.function].append(task.cold_bytes)
    coldest = max(run.cold_bytes or 0 for run in runs)
    told = {function: [one for one in each if one is not None] for function, each in found.items()}
    return {function: max(each, default=coldest) for function, each in told.items()}


def _measured(entry: Entry, again: Again) -> MeasuredAgainDict:
    return {
        "workload_hash": entry.function,
        "run": entry.run,
        "trial": entry.trial,
        "latencies_s": again.latencies_s,
        "error": again.error,
    }
