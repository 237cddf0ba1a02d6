"""The trials of one engine process: each is written to the record file, counted, then reported. No TVM here."""

import contextlib
import heapq
import logging
import shutil
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, NoReturn, Optional

from .pipes import ControlReader, EventWriter, Message
from .records import Recorded, RecordFile

logger = logging.getLogger("tuneboard")
LEAST_FREE = 4 << 20
"""Bytes that must be free on the disk with the run's files. With less, a build may fail without being to blame."""
KINDS = (
    None,
    "instantiation",
    "build",
    "build",
    "run",
    "wrong_answer",
    "build_timeout",
    "run_timeout",
    "unknown",
)
"""`ErrorKind` by TVM's error number, which is the same for auto_scheduler and AutoTVM."""
UNKNOWN = "unknown"
NOTHING_SAID = {
    "build_timeout": "The build took longer than its timeout.",
    "run_timeout": "The measurement took longer than its timeout.",
}
"""TVM has no text for these."""

DEFECTS = {
    "name_to_arg.end()": "This build of TVM can't rewrite the layout of a dense layer's weights. "
    "Choose the layout rewrite no_rewrite.",
    "load_module() takes 1 positional argument but 3 were given": "This build of TVM can't load functions over RPC. "
    "Measure on this machine, or with another TVM.",
}
"""What helps, by what TVM says where a build of it is at fault."""


class Outcome(NamedTuple):
    """What became of a candidate. `latency_s` is None if `error_no` isn't 0; `error` is TVM's text."""

    latency_s: Optional[float]
    error_no: int = 0
    error: Optional[str] = None


class Progress:
    """Trials of one task, those of earlier processes included."""

    def __init__(self) -> None:
        self.trials = 0
        self.best_s = float("inf")
        self.best_trial = 0
        """The number among the task's trials, from 1."""
        self._kept: List[float] = []  # A heap of the best latencies, negated so that the worst is on top.

    def add(self, latency_s: Optional[float]) -> None:
        """Count a trial."""
        self.trials += 1
        if latency_s is not None and latency_s < self.best_s:
            self.best_s, self.best_trial = latency_s, self.trials

    def among_best(self, latency_s: Optional[float], most: int) -> bool:
        """Whether it is one of the best latencies that were asked about."""
        if latency_s is None:
            return False
        heapq.heappush(self._kept, -latency_s)
        return len(self._kept) <= most or heapq.heappop(self._kept) != -latency_s


class Trials:
    """Counts against the budget. `tasks` are the names of all tasks, by index."""

    def __init__(self, start: Message, tasks: List[str], events: EventWriter, records: RecordFile) -> None:
        self.done: int = start["trials_done"]
        self.total: int = start["trials_budget"]
        self.tasks = [Progress() for _ in tasks]
        self.before_end: List[Callable[[], None]] = []
        """Called before the process ends by itself."""
        self._names = tasks
        self._start = start
        self._started_at = time.monotonic()
        self._events = events
        self._records = records
        self._lock = threading.RLock()
        self._measuring = False
        self._end_requested: Optional[str] = None
        self._timer: Optional[threading.Timer] = None

    @property
    def left(self) -> int:
        """Trials that the budget still has."""
        with self._lock:
            return max(0, self.total - self.done)

    def elapsed_s(self) -> float:
        """Seconds of tuning, those of earlier processes included."""
        return float(self._start["elapsed_s"]) + time.monotonic() - self._started_at

    def obey(self, controls: ControlReader) -> None:
        """From now on, stop and go on as the supervisor says. Time counts from its start."""
        self._started_at = controls.started_at
        self.limit_time(self._start["time_limit_s"])
        controls.on_stop = self.stop
        controls.watch_extensions(self.extend)

    def extend(self, extension: Message) -> None:
        """Continue up to another budget and time limit. Thread-safe."""
        with self._lock:
            self.total = extension["trials_budget"]
            self.limit_time(extension["time_limit_s"])

    def limit_time(self, limit_s: Optional[float]) -> None:
        """End the run after this many seconds of tuning, including those of earlier processes."""
        if self._timer:
            self._timer.cancel()
        if limit_s is not None:
            self._timer = threading.Timer(max(0.0, limit_s - self.elapsed_s()), self.stop, ("time_limit",))
            self._timer.daemon = True
            self._timer.start()

    def recover(self, lines: List[Recorded], index_of: Dict[str, int]) -> None:
        """Count the trials of the record file, and report those that the supervisor missed.

        Raises `ValueError` for a record of another network.
        """
        already = self.done
        for number, line in enumerate(lines[: self.total], start=1):
            task = None if line.workload is None else self._known(line, number, index_of)
            if task is not None:
                self.tasks[task].add(line.latency_s)
                if number > already:
                    self.done = number
                    self._report_recovered(task, line)
        if len(lines) < already:
            self._records.pad(already - len(lines))

    def _known(self, line: Recorded, number: int, index_of: Dict[str, int]) -> int:
        if line.workload not in index_of:
            raise ValueError(f"{self._records.path}, line {number}, is of a task that isn't one of this run's.")
        return index_of[line.workload]

    def _report_recovered(self, task: int, line: Recorded) -> None:
        # When it was measured, and why it failed if it did, only the earlier process knew.
        self._send(
            task, Outcome(line.latency_s, line.error_no), line.text, recovered=True, at_s=self._start["elapsed_s"]
        )

    def report_phase(self, name: str, task: Optional[int] = None) -> None:
        self._events.send("phase", name=name, task=task)

    @contextlib.contextmanager
    def measurement(self) -> Iterator[None]:
        """Make a stop wait for the measurement inside, which must end its trial there too."""
        with self._lock:
            if not self.left:
                self.finish("budget")
            self._measuring = True
        yield
        with self._lock:
            self._measuring = False
            if self._end_requested:
                self.finish(self._end_requested)
            if not self.left:
                self.finish("budget")

    def end_trial(self, task: int, outcome: Outcome, record: str) -> None:
        """Write the trial to the record file, then report it. If the disk is full, the run ends before that."""
        with self._lock:
            self._require_space()
            self._records.append(record)
            self.done += 1
            self.tasks[task].add(outcome.latency_s)
            self._log(task, outcome)
            self._send(task, outcome, record, at_s=self.elapsed_s(), sent_at=time.monotonic())

    def _send(self, task: int, outcome: Outcome, record: str, **about: Any) -> None:
        keep = self.tasks[task].among_best(outcome.latency_s, self._start["keep_best"])
        self._events.send(
            "trial",
            task=task,
            latency_s=outcome.latency_s,
            error_kind=kind_of(outcome),
            error=text_of(outcome),
            record=record if keep else None,
            **about,
        )

    def _log(self, task: int, outcome: Outcome) -> None:
        progress = self.tasks[task]
        head = f"[Task #{task}: {self._names[task]}] Trial #{progress.trials}"
        if outcome.latency_s is None:
            logger.info("%s: Error in %s:\n%s", head, kind_of(outcome), text_of(outcome))
        else:
            logger.info("%s: Time: %.4f us. Best: %.4f us", head, outcome.latency_s * 1e6, progress.best_s * 1e6)

    def stop(self, reason: str = "stopped") -> None:
        """End the process now, or after the measurement that is running. Thread-safe."""
        with self._lock:
            if not self._measuring:
                self.finish(reason)
            self._end_requested = reason

    def fail(self, error: str) -> NoReturn:
        """Report why the run can't continue, and end the process. Thread-safe."""
        with self._lock:
            logger.error("%s", error)
            self._events.exit_with("failed", error=error)

    def finish(self, reason: str) -> NoReturn:
        """Report the end and end the process. Nothing else is left to do: each trial was written when it ended."""
        with self._lock:
            for tell in self.before_end:
                tell()
            logger.info("Finished (%s): %d of %d trials.", reason, self.done, self.total)
            self._events.exit_with("finished", reason=reason)

    def _require_space(self) -> None:
        free = shutil.disk_usage(self._start["work_dir"]).free
        if free < LEAST_FREE:
            self.fail(
                f"The disk with the run's files is full: {free >> 10:,} KiB are free. Free some space, then resume the run."
            )


def kind_of(outcome: Outcome) -> Optional[str]:
    """The protocol's name for TVM's error number; None for a valid trial."""
    return KINDS[outcome.error_no] if 0 <= outcome.error_no < len(KINDS) else UNKNOWN


def text_of(outcome: Outcome) -> Optional[str]:
    """TVM's text, or ours where it has none; None for a valid trial and for a text that nobody recorded."""
    if outcome.latency_s is not None:
        return None
    text = (outcome.error or "").strip()
    advice = [advice for said, advice in DEFECTS.items() if said in text]
    return "\n".join([text, *advice]) or NOTHING_SAID.get(kind_of(outcome) or UNKNOWN)
