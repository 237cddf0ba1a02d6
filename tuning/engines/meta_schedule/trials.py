"""The trials of one engine process: each is counted, committed to the record file, then reported."""

from __future__ import annotations

import heapq
import logging
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, NoReturn

import msgspec
from tvm.s_tir import meta_schedule as ms

from tuning.engines.events import EventWriter
from tuning.engines.measuring.outcomes import LEAST_FREE, Failure, Timing
from tuning.engines.wire.options.meta_schedule import CONFIRM_LEAST_S, CONFIRM_SHARE
from tuning.engines.wire.protocol import (
    ARTIFACTS,
    Adapted,
    Confirmed,
    Extend,
    Failed,
    Finished,
    FinishReason,
    Phase,
    PhaseName,
    Plateaued,
    Preferred,
    Ranked,
    ReferenceMeasured,
    Start,
    TaskInfo,
    TrialMeasured,
)
from tuning.logs.meta_schedule import FAILED_RUN_SECS, BestRecord, RecordLine, RecordTail, best_records, last_records

from .rounds.stopwatch import Stopwatch
from .trial_budget import TrialBudget

logger = logging.getLogger("tuneboard")


class Trials:
    """The trials of each task, including those of earlier processes. `started_at` is on the monotonic clock."""

    def __init__(
        self,
        start: Start,
        tasks: list[TaskInfo],
        budget: TrialBudget,
        events: EventWriter,
        started_at: float,
    ) -> None:
        self.done = start.trials_done
        self.total = start.trials_budget
        self.budget = budget
        self._preferred: dict[int, int] = {}
        """Of tasks with a rival, which of both counts in the estimate; it is told when it changes."""
        self.changed = threading.Event()
        """Set when the budget has grown, and by whoever ends trials on another thread. Who waits for it clears it."""
        self._start = start
        self._tasks = tasks
        self._events = events
        self._started_at = started_at
        self.stopwatch = Stopwatch(events.send, self._elapsed_s, start.elapsed_s)
        self._best: list[list[float]] = [[] for _ in tasks]  # Heaps of the best k, negated so that the worst is on top.
        self._lock = threading.RLock()
        self._measuring = False
        self._end_requested: FinishReason | None = None
        self._timer: threading.Timer | None = None
        self._over: FinishReason | None = None
        self._search_until = float("inf")

    @property
    def left(self) -> int:
        """Trials of the run's budget that are neither done nor in flight."""
        with self._lock:
            return max(0, self.total - self.done - self.budget.in_flight)

    @property
    def searching_is_over(self) -> bool:
        """Whether, as things stand, no task may have more trials."""
        with self._lock:
            return not self.budget.any_tunable(self.left)

    @property
    def in_flight(self) -> int:
        """Candidates that haven't ended yet."""
        with self._lock:
            return self.budget.in_flight

    def next_task(self) -> int | None:
        """The task to tune next; None if, as things stand, no task may have more trials."""
        with self._lock:
            return None if self.is_late else self.budget.next_task(self.left)

    def batch_size(self, task: int) -> int:
        """How many candidates the task's next batch may have."""
        with self._lock:
            return self.budget.batch_size(task, self.left)

    def add_in_flight(self, task: int, candidates: int) -> None:
        """Reserve trials of the budget for candidates that are about to be built and measured."""
        with self._lock:
            self.budget.progress[task].in_flight += candidates

    def finish_reason(self) -> FinishReason:
        """Why no task may have more trials."""
        if self.done >= self.total:
            return "budget"
        if self.is_late:
            return "time_limit"
        return "plateau" if self.budget.on_plateau else "exhausted"

    def extend(self, extension: Extend) -> None:
        """Continue up to another budget and time limit. Thread-safe."""
        with self._lock:
            self.total = extension.trials_budget
            self.limit_time(extension.time_limit_s)
        self.changed.set()

    def limit_time(self, limit_s: float | None) -> None:
        """End the run after this many seconds of tuning, including those of earlier processes."""
        if self._timer:
            self._timer.cancel()
        self._search_until = float("inf")
        if limit_s is not None:
            self._search_until = limit_s - self.kept_s(limit_s)
            self._timer = threading.Timer(max(0.0, limit_s - self._elapsed_s()), self.stop, ("time_limit",))
            self._timer.daemon = True
            self._timer.start()

    @property
    def confirms(self) -> bool:
        """Whether the best records are measured again at the end: what measures for a pool can't do that."""
        return self._start.options.confirm > 0 and self._start.pool is None

    def kept_s(self, limit_s: float) -> float:
        """How much of a time limit is left for that."""
        return min(CONFIRM_LEAST_S, limit_s * CONFIRM_SHARE) if self.confirms else 0.0

    @property
    def is_late(self) -> bool:
        """Whether what is left of the time limit is kept for confirming."""
        return self.elapsed_s > self._search_until

    @property
    def elapsed_s(self) -> float:
        """Seconds of tuning, including those of earlier processes."""
        return self._elapsed_s()

    def _elapsed_s(self) -> float:
        return self._start.elapsed_s + time.monotonic() - self._started_at

    def open_records(self, work_dir: Path, database: Any, workloads: list[Any]) -> None:
        """Append new trials to this database, which has the `workloads` of the tasks."""
        self._database = database
        self._workloads = workloads
        self._records = RecordTail(work_dir)

    def recover(self, recorded: list[tuple[int, RecordLine]]) -> None:
        """Count the trials of the record file, given as (task, line), and report those that the supervisor missed."""
        missed = max(0, len(recorded) - self._start.trials_done)
        texts = iter(last_records(Path(self._start.work_dir), missed))
        for number, (task, line) in enumerate(recorded[: self._start.trials_budget], start=1):
            if not line.lost:
                self.budget.add_recorded(task, line.latency_s)
            if number > self._start.trials_done:
                self.done = number
                self._events.send(self._recovered(task, line, next(texts)))
        for task in self.budget.chosen:  # Events of an earlier process may have been lost.
            self._report_preferred(task)

    def _recovered(self, task: int, line: RecordLine, text: str) -> TrialMeasured:
        # When it was measured, and why it failed if it did, only the earlier process knew.
        failed = line.latency_s is None
        short = line.repeats > self._start.options.repeat
        keep = line.latency_s is not None and not short and self._among_best(task, line.latency_s)
        return TrialMeasured(
            task=task,
            latency_s=line.latency_s,
            record=text if keep else None,
            short=short,
            at_s=self._start.elapsed_s,
            error_kind="run" if failed else None,
            error="not recorded" if failed else None,
            recovered=True,
        )

    def report_phase(self, name: PhaseName, task: int | None = None) -> None:
        self._events.send(Phase(name, task))

    def report_ranking(
        self, task: int, correlation: float | None, scores: list[float], latencies_s: list[float]
    ) -> None:
        """Report what the cost model said of candidates that were measured; see `Ranked`."""
        self._events.send(Ranked(task, self.done, self._elapsed_s(), correlation, scores, latencies_s))

    @contextmanager
    def measurement(self) -> Iterator[None]:
        """Make a stop wait for the measurement inside, which must end its trial there too."""
        with self._lock:
            self._measuring = True
        yield
        with self._lock:
            self._measuring = False
            if self._end_requested:
                self.finish(self._end_requested)

    def race_limit_s(self, task: int) -> float | None:
        """The latency above which a candidate of the task loses its race; None before the first valid trial."""
        limit_s = self.budget.progress[task].best_s * self._start.options.race_margin
        return limit_s if limit_s < float("inf") else None

    def end_trial(
        self, task: int, candidate: Any, outcome: Timing | Failure, target: Any, machine: str | None = None
    ) -> int:
        """Commit the trial to the record file, then report it, and return its number. If the disk is full, the run ends before that.

        `machine` is the one of the run's pool that measured it.
        """
        with self._lock:
            self._require_space()
            failed = isinstance(outcome, Failure)
            short = isinstance(outcome, Timing) and outcome.short
            run_secs = [FAILED_RUN_SECS] if isinstance(outcome, Failure) else outcome.run_secs
            self._database.commit_tuning_record(
                ms.database.TuningRecord(
                    candidate.sch.trace, self._workloads[task], run_secs, target, candidate.args_info
                )
            )
            text = self._records.read_next()
            self.done += 1
            latency = None if failed else fmean(run_secs)
            plateaued = self.budget.add_trial(task, latency)
            self._log(task, latency, outcome)
            keep = latency is not None and not short and self._among_best(task, latency)
            self._events.send(
                TrialMeasured(
                    task=task,
                    latency_s=latency,
                    at_s=self._elapsed_s(),
                    error_kind=outcome.kind if isinstance(outcome, Failure) else None,
                    error=outcome.text if isinstance(outcome, Failure) else None,
                    record=text if keep else None,
                    short=short,
                    sent_at=time.monotonic(),
                    machine=machine,
                )
            )
            if plateaued:
                self._events.send(Plateaued(task))
            self._report_preferred(task)
            return self.done

    def _report_preferred(self, task: int) -> None:
        """Report which of two rivals is faster now, if that is another one than before."""
        if (found := self.budget.preferred(task)) is None:
            return
        first, second = found
        if self._preferred.get(min(found)) != first:
            self._preferred[min(found)] = first
            self._events.send(Preferred(first, second))

    def counts(self, task: int) -> bool:
        """Whether the task is a part of the estimate: it has no rival, or none that is faster."""
        found = self.budget.preferred(task)
        return found is None or found[0] == task

    def end_with(self, reason: FinishReason) -> None:
        """Nothing more is tuned: from now on, whatever ends the run ends it for this reason."""
        with self._lock:
            self._over = reason

    def task_of(self, shash: str) -> int:
        """The task whose workload has this structural hash. Raises `KeyError`."""
        return {of: task for task, of in enumerate(self._hashes)}[shash]

    @cached_property
    def _hashes(self) -> list[str]:
        """The structural hash of each task's workload, which TVM tells only with the whole workload."""
        return [str(workload.as_json()[0]) for workload in self._workloads]

    def cold_bytes(self, task: int) -> int:
        """As in `Evaluation`, for the task's candidates."""
        return self._tasks[task].cold_bytes or 0

    def cold_bytes_of(self, record: str) -> int:
        """The same for a record of the run, given as in `TrialMeasured.record`."""
        (shash, _), _ = msgspec.json.decode(record)
        return self.cold_bytes(self.task_of(shash))

    def best_records(self) -> dict[int, list[BestRecord]]:
        """The records to confirm of each task that has any, fastest first."""
        options = self._start.options
        by_hash = best_records(Path(self._start.work_dir), options.confirm, options.repeat)
        hashes = {task: self._hashes[task] for task in self.budget.chosen}
        return {task: by_hash[shash] for task, shash in hashes.items() if shash in by_hash}

    def report_adapted(self, adapted: Adapted) -> None:
        """Report it unless no task begins so."""
        if adapted.tasks:
            self._events.send(adapted)

    def report_confirmed(self, confirmed: Confirmed) -> None:
        self._events.send(confirmed)

    def report_reference(self, trial: int, latency_s: float) -> None:
        """Report that this trial's record was measured again."""
        logger.info("[Reference: trial #%d] Time: %.4f us.", trial, latency_s * 1e6)
        self._events.send(ReferenceMeasured(trial, latency_s, self._elapsed_s()))

    def _among_best(self, task: int, latency: float) -> bool:
        best = self._best[task]
        heapq.heappush(best, -latency)
        return len(best) <= self._start.keep_best or heapq.heappop(best) != -latency

    def _log(self, task: int, latency: float | None, outcome: Timing | Failure) -> None:
        info = self._tasks[task]
        progress = self.budget.progress[task]
        head = f"[Task #{task}: {info.name}] Trial #{progress.trials}"
        if latency is None:
            assert isinstance(outcome, Failure)
            logger.info("%s: Error in %s:\n%s", head, outcome.kind, outcome.text)
            return
        speed, best = (_gflops(info.flop, seconds) for seconds in (latency, progress.best_s))
        logger.info("%s: GFLOPs: %s. Time: %.4f us. Best GFLOPs: %s", head, speed, latency * 1e6, best)

    def stop(self, reason: FinishReason = "stopped") -> None:
        """End the process now, or after the measurement that is running. Thread-safe."""
        with self._lock:
            if not self._measuring:
                self.finish(self._over or reason)
            self._end_requested = reason

    def fail(self, error: str) -> NoReturn:
        """Report why the run can't continue, and end the process; once nothing more is tuned, nothing is missing. Thread-safe."""
        with self._lock:
            logger.error("%s", error)
            if self._over:
                self.finish(self._over)
            self._clean_up()
            with suppress(OSError):  # The console's disk may be full.
                sys.stdout.flush()
            self._events.exit_with(Failed(error), before=self.stopwatch.close())

    def finish(self, reason: FinishReason) -> NoReturn:
        """Report the end and end the process. Nothing else is left to do: each trial was committed when it ended."""
        with self._lock:
            self._clean_up()
            logger.info("Finished (%s): %d of %d trials.", reason, self.done, self.total)
            sys.stdout.flush()
            self._events.exit_with(Finished(reason), before=self.stopwatch.close())

    def _require_space(self) -> None:
        free = shutil.disk_usage(self._start.work_dir).free
        if free < LEAST_FREE:
            self.fail(
                f"The disk with the run's files is full: {free >> 10:,} KiB are free. Free some space, then resume the run."
            )

    def _clean_up(self) -> None:
        shutil.rmtree(Path(self._start.work_dir, ARTIFACTS), ignore_errors=True)


def _gflops(flop: float, seconds: float) -> str:
    """TVM counts no operations in some functions."""
    return f"{flop / seconds / 1e9:.4f}" if flop else "not recorded"
