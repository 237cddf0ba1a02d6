"""The trials of one engine process: counted, committed to the record file, then reported. One after another."""

from __future__ import annotations

import heapq
import logging
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any, NoReturn

from tvm.s_tir import meta_schedule as ms

from tuning.engines.measuring.local import ARTIFACTS, Failure
from tuning.engines.measuring.workers import Timing
from tuning.engines.wire.protocol import (
    Extend,
    Failed,
    Finished,
    FinishReason,
    Phase,
    PhaseName,
    Plateaued,
    Start,
    TaskInfo,
    TrialMeasured,
)
from tuning.logs import meta_schedule

from .pipes import Outbox
from .trial_budget import Allotment

logger = logging.getLogger("tuneboard")


class Trials:
    """What was tried of each task, by this process and earlier ones; `began` on the monotonic clock."""

    def __init__(self, start: Start, tasks: list[TaskInfo], outbox: Outbox, began: float) -> None:
        self.done = start.trials_done
        self.budget = start.trials_budget
        self.allotment = Allotment(
            [task.weight for task in tasks], [task.index for task in tasks if task.chosen], start.options
        )
        self._start = start
        self._tasks = tasks
        self._outbox = outbox
        self._began = began
        self._best: list[list[float]] = [[] for _ in tasks]  # Heaps of the best k, negated so that the worst is on top.
        self._lock = threading.RLock()
        self._measuring = False
        self._end_wanted: FinishReason | None = None
        self._timer: threading.Timer | None = None

    @property
    def left(self) -> int:
        """Trials of the budget that are neither done nor under way."""
        with self._lock:
            return max(0, self.budget - self.done - self.allotment.under_way)

    def next_task(self) -> int | None:
        """The task to tune; None when nobody shall have any more trials, as it looks now."""
        with self._lock:
            return self.allotment.next(self.left)

    def share(self, task: int) -> int:
        """Candidates of the task's next batch, at most."""
        with self._lock:
            return self.allotment.share(task, self.left)

    def handed_out(self, task: int, candidates: int) -> None:
        """So many candidates are being built or measured, or wait for it: each will be a trial of the budget."""
        with self._lock:
            self.allotment.standings[task].under_way += candidates

    def why_no_more(self) -> FinishReason:
        """Why no task shall have any more trials."""
        if self.done >= self.budget:
            return "budget"
        return "plateau" if self.allotment.gave_up else "exhausted"

    def extend(self, extension: Extend) -> None:
        """Go on up to another budget and time limit; from any thread."""
        with self._lock:
            self.budget = extension.trials_budget
            self.limit_time(extension.time_limit_s)

    def limit_time(self, limit_s: float | None) -> None:
        """End the run when its tuning took this long."""
        if self._timer:
            self._timer.cancel()
        if limit_s is not None:
            self._timer = threading.Timer(max(0.0, limit_s - self._elapsed_s()), self.stop, ("time_limit",))
            self._timer.daemon = True
            self._timer.start()

    def _elapsed_s(self) -> float:
        return self._start.elapsed_s + time.monotonic() - self._began

    def open(self, work_dir: Path, database: Any, workloads: list[Any]) -> None:
        """Take the record file that new trials are appended to; `workloads` are the tasks' in the database."""
        self._database = database
        self._workloads = workloads
        self._text = meta_schedule.RecordText(work_dir)

    def recover(self, earlier: list[tuple[int, meta_schedule.Recorded]]) -> None:
        """Count the trials of the record file (task and line), and report those that the supervisor never heard of."""
        unheard = max(0, len(earlier) - self._start.trials_done)
        texts = iter(meta_schedule.latest(Path(self._start.work_dir), unheard))
        for number, (task, line) in enumerate(earlier[: self._start.trials_budget], start=1):
            if not line.lost:
                self.allotment.earlier(task, line.latency_s)
            if number > self._start.trials_done:
                self.done = number
                self._outbox.send(self._recovered(task, line, next(texts)))

    def _recovered(self, task: int, line: meta_schedule.Recorded, text: str) -> TrialMeasured:
        # When they were measured, and why one failed, died with the earlier process.
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

    def phase(self, name: PhaseName, task: int | None = None) -> None:
        """Say what the engine does from now on."""
        self._outbox.send(Phase(name, task))

    @contextmanager
    def measurement(self) -> Iterator[None]:
        """A measurement, which a stop waits for; its trial is to be ended inside."""
        with self._lock:
            self._measuring = True
        yield
        with self._lock:
            self._measuring = False
            if self._end_wanted:
                self.finish(self._end_wanted)

    def slow_s(self, task: int) -> float | None:
        """The latency in seconds from which on a candidate of the task is clearly slower than its best; None at first."""
        best = self.allotment.standings[task].best * self._start.options.race_margin
        return best if best < float("inf") else None

    def ended(self, task: int, candidate: Any, outcome: Timing | Failure, target: Any) -> None:
        """Commit the trial, then report it."""
        with self._lock:
            failed = isinstance(outcome, Failure)
            short = isinstance(outcome, Timing) and outcome.short
            run_secs = [meta_schedule.FAILED_RUN_SECS] if isinstance(outcome, Failure) else outcome.run_secs
            self._database.commit_tuning_record(
                ms.database.TuningRecord(
                    candidate.sch.trace, self._workloads[task], run_secs, target, candidate.args_info
                )
            )
            text = self._text.appended()
            self.done += 1
            latency = None if failed else fmean(run_secs)
            plateaued = self.allotment.ended(task, latency)
            self._log(task, latency, outcome)
            keep = latency is not None and not short and self._among_best(task, latency)
            self._outbox.send(
                TrialMeasured(
                    task=task,
                    latency_s=latency,
                    at_s=self._elapsed_s(),
                    error_kind=outcome.kind if isinstance(outcome, Failure) else None,
                    error=outcome.text if isinstance(outcome, Failure) else None,
                    record=text if keep else None,
                    short=short,
                )
            )
            if plateaued:
                self._outbox.send(Plateaued(task))

    def _among_best(self, task: int, latency: float) -> bool:
        best = self._best[task]
        heapq.heappush(best, -latency)
        return len(best) <= self._start.keep_best or heapq.heappop(best) != -latency

    def _log(self, task: int, latency: float | None, outcome: Timing | Failure) -> None:
        info = self._tasks[task]
        standing = self.allotment.standings[task]
        head = f"[Task #{task}: {info.name}] Trial #{standing.trials}"
        if latency is None:
            assert isinstance(outcome, Failure)
            logger.info("%s: Error in %s:\n%s", head, outcome.kind, outcome.text)
            return
        speed, best = (_gflops(info.flop, seconds) for seconds in (latency, standing.best))
        logger.info("%s: GFLOPs: %s. Time: %.4f us. Best GFLOPs: %s", head, speed, latency * 1e6, best)

    def stop(self, reason: FinishReason = "stopped") -> None:
        """End the process now, or after the measurement under way; from any thread."""
        with self._lock:
            if not self._measuring:
                self.finish(reason)
            self._end_wanted = reason

    def fail(self, error: str) -> NoReturn:
        """Say why the run can't go on, and end the process; from any thread."""
        with self._lock:
            self._clean_up()
            logger.error("%s", error)
            sys.stdout.flush()
            self._outbox.close_with(Failed(error))

    def finish(self, reason: FinishReason) -> NoReturn:
        """Say so and end the process. Nothing is left to do, since every trial was committed when it ended."""
        with self._lock:
            self._clean_up()
            logger.info("Finished (%s): %d of %d trials.", reason, self.done, self.budget)
            sys.stdout.flush()
            self._outbox.close_with(Finished(reason))

    def _clean_up(self) -> None:
        shutil.rmtree(Path(self._start.work_dir, ARTIFACTS), ignore_errors=True)


def _gflops(flop: float, seconds: float) -> str:
    """TVM counts no operations in some functions."""
    return f"{flop / seconds / 1e9:.4f}" if flop else "not recorded"
