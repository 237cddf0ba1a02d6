"""What the logs of a MetaSchedule work directory tell, and the records don't: names, FLOP, weights, when a trial was measured, why it failed.

The lines are TVM's own, from `logs/` or from a console: tables of the task scheduler, `Initializing Task #0: "name"`, and of each trial
`[Task #0: name] Trial #1: GFLOPs: 21.6. Time: 24.4 us. …` or `… Trial #5: Error in building:` followed by text.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from math import isnan, nan
from statistics import median
from typing import NamedTuple

from .errors import ErrorKind

STAMP = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)")
INITIALIZING = re.compile(r'Initializing Task #(\d+): "?(.*?)"?\s*$')
TRIAL = re.compile(
    r"\[Task #(\d+): .*\] Trial #\d+: (?:GFLOPs: .*? Time: ([\d.]+) (ns|us|ms|s)\b|Error in (building|running):(.*))"
)
ROW = re.compile(r"\s*(\d+) \|\s*(\S.*?) \|\s*([\d.e+]+) \|\s*([\d.]+) \|[^|]*\|\s*([\d.]+|N/A) \|")
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
ROUNDING = 6e-5
"""Of a unit: times are printed with four decimals."""
CODE = re.compile(r"# from tvm\.|from tvm\.|@tvm\.script|@I\.ir_module|@T\.prim_func|@main")
"""An error's text ends where the module begins."""
LONGEST_ERROR = 8000
"""Characters."""
NO_ZONE = "the times in the logs have no time zone; they were read as UTC"


class Entry(NamedTuple):
    """What a log says of one trial."""

    timestamp: float | None
    session: int
    error: str | None
    error_kind: ErrorKind | None


class LoggedTask:
    """What a file says of one task. Trials are kept as columns, about 30 bytes each."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.name: str | None = None
        self.flop: float | None = None
        self.weight: int | None = None
        self.best_s: float | None = None
        self.sessions = 0
        self.times, self.units, self.stamps = array("d"), array("d"), array("d")
        self.session_of, self.error_of = array("i"), array("i")

    def add(self, time: float, unit: float, stamp: float, error: int) -> None:
        """A trial. `time` is NaN if it failed; `error` numbers its text, -1 is none."""
        self.times.append(time)
        self.units.append(unit)
        self.stamps.append(stamp)
        self.session_of.append(self.sessions)
        self.error_of.append(error)


class WorkLog:
    """All that one file says."""

    def __init__(self) -> None:
        self.tasks: dict[int, LoggedTask] = {}
        self.errors: list[tuple[str, ErrorKind]] = []
        self._numbers: dict[tuple[str, ErrorKind], int] = {}
        self._stamp = nan
        self._failed: tuple[LoggedTask, str, list[str]] | None = None
        self._in_code = False

    def read(self, lines: Iterable[str]) -> WorkLog:
        for line in lines:
            self._line(line.rstrip("\r\n"))
        self._end_of_error()
        return self

    def _line(self, line: str) -> None:
        if stamp := STAMP.match(line):
            self._end_of_error()
            self._stamp = _seconds(stamp[1])
        if "Task #" in line:
            self._of_task(line)
        elif self._failed and not stamp:
            self._more_of_error(line)
        elif row := ROW.match(line):
            self._row(row)

    def _of_task(self, line: str) -> None:
        if found := TRIAL.search(line):
            self._end_of_error()
            task = self._task(found[1])
            if found[2]:
                task.add(float(found[2]), UNITS[found[3]], self._stamp, -1)
            else:
                self._failed, self._in_code = (task, found[4], [found[5].strip()]), False
        elif found := INITIALIZING.search(line):
            task = self._task(found[1])
            task.name = found[2]
            task.sessions += 1

    def _task(self, index: str) -> LoggedTask:
        return self.tasks.setdefault(int(index), LoggedTask(int(index)))

    def _row(self, row: re.Match[str]) -> None:
        task = self._task(row[1])
        task.name, task.flop = row[2], float(row[3])
        task.weight = int(float(row[4]))
        task.best_s = None if row[5] == "N/A" else float(row[5]) * 1e-6

    def _more_of_error(self, line: str) -> None:
        assert self._failed
        self._in_code = self._in_code or bool(CODE.match(line))
        if not self._in_code:
            self._failed[2].append(line)

    def _end_of_error(self) -> None:
        if self._failed:
            task, step, lines = self._failed
            text = "\n".join(lines).strip()[:LONGEST_ERROR]
            key = (text, _kind(step, text))
            number = self._numbers.setdefault(key, len(self._numbers))
            if number == len(self.errors):
                self.errors.append(key)
            task.add(nan, 1.0, self._stamp, number)
            self._failed = None


def _kind(step: str, text: str) -> ErrorKind:
    timed_out = "timeout" in text.lower() or "timed out" in text.lower()
    if step == "building":
        return "build_timeout" if timed_out else "build"
    return "run_timeout" if timed_out else "run"


def _seconds(text: str) -> float:
    try:
        return datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return nan


class Told:
    """What a log tells of a workload. Its n-th record is the log's entry n - `skipped`: older sessions may lack their log."""

    def __init__(self, task: LoggedTask, errors: Sequence[tuple[str, ErrorKind]], skipped: int | None) -> None:
        self.name, self.flop, self.weight = task.name, task.flop, task.weight
        self.index = task.index
        self._task, self._errors, self._skipped = task, errors, skipped

    @property
    def has_times(self) -> bool:
        """Whether it tells when trials were measured."""
        return self._skipped is not None and any(not isnan(stamp) for stamp in self._task.stamps)

    def entry(self, nth: int) -> Entry | None:
        """Of the workload's n-th record, from 0. None if the log doesn't tell."""
        task, at = self._task, nth - (self._skipped or 0)
        if self._skipped is None or not 0 <= at < len(task.times):
            return None
        number, stamp = task.error_of[at], task.stamps[at]
        error, kind = self._errors[number] if number >= 0 else (None, None)
        return Entry(None if isnan(stamp) else stamp, max(task.session_of[at] - 1, 0), error, kind)


class Times:
    """The latencies of one workload's records in order, NaN for a failure: 16 bytes each."""

    def __init__(self) -> None:
        self.means, self.medians = array("d"), array("d")

    def add(self, costs: Sequence[float]) -> None:
        """TVM logs the median of the costs."""
        self.means.append(sum(costs) / len(costs) if costs else nan)
        self.medians.append(median(costs) if costs else nan)

    def __len__(self) -> int:
        return len(self.means)

    def agree(self, at: int, time: float, unit: float) -> bool:
        """Whether a time in a log is this record's. NaN is a failure."""
        if isnan(time) or isnan(self.means[at]):
            return isnan(time) and isnan(self.means[at])
        return any(abs(column[at] / unit - time) <= ROUNDING for column in (self.medians, self.means))

    def has(self, time_s: float) -> bool:
        """Whether some record took this long, within the rounding of a table in microseconds."""
        return any(abs(each - time_s) <= ROUNDING * 1e-6 for column in (self.medians, self.means) for each in column)


def matched(logs: Iterable[WorkLog], times: Mapping[int, Times]) -> tuple[dict[int, Told], list[str]]:
    """What is told of each workload, by index, and which tasks of the logs fit none.

    A task of the logs and a workload belong together if their times agree. Numbers alone prove nothing: two tasks may share a workload.
    """
    told: dict[int, Told] = {}
    unclear: list[LoggedTask] = []
    logs = list(logs)
    for task, trials, errors in _merged(logs):
        index, skipped = _workload(task, trials, times)
        if index is None:
            unclear.append(task)
        else:
            told.setdefault(index, Told(_with_trials(task, trials), errors, skipped))
    same_order = all(index == each.index for index, each in told.items()) and bool(told)
    strangers = []
    for task in unclear:
        # What never succeeded has no time to compare. Where all others are in the same order, so is this one.
        if same_order and task.best_s is None and task.index in times and task.index not in told:
            told[task.index] = Told(task, [], None)
        elif task.index in times or task.best_s is not None:
            strangers.append(f"task #{task.index} of the logs ({task.name}) fits no workload of the records")
    return told, strangers


def _merged(logs: Sequence[WorkLog]) -> Iterable[tuple[LoggedTask, LoggedTask, Sequence[tuple[str, ErrorKind]]]]:
    """Each task as the tables of all files describe it, with the trials of the file that has most of them."""
    for index in sorted({index for log in logs for index in log.tasks}):
        holders = [log for log in logs if index in log.tasks]
        fullest = max(holders, key=lambda log: len(log.tasks[index].times))
        described = max(holders, key=lambda log: log.tasks[index].flop is not None)
        yield described.tasks[index], fullest.tasks[index], fullest.errors


def _with_trials(task: LoggedTask, trials: LoggedTask) -> LoggedTask:
    trials.name, trials.flop, trials.weight = task.name or trials.name, task.flop, task.weight
    return trials


def _workload(task: LoggedTask, trials: LoggedTask, times: Mapping[int, Times]) -> tuple[int | None, int | None]:
    """The workload with the same times, and how many of its records are older than the log."""
    first = (index for index in (task.index,) if index in times)
    for index in dict.fromkeys([*first, *times]):
        if len(trials.times):
            if (skipped := _offset(trials, times[index], same=index == task.index)) is not None:
                return index, skipped
        elif task.best_s is not None and times[index].has(task.best_s):
            return index, None
    return None, None


def _offset(trials: LoggedTask, times: Times, *, same: bool) -> int | None:
    """Where the log's trials begin among the records: at the start, or so that both end together."""
    count, records = len(trials.times), len(times)
    worked = any(not isnan(time) for time in trials.times)
    for skipped in dict.fromkeys((0, max(records - count, 0))):
        common = min(count, records - skipped)
        if not worked and not (same and count == records):
            continue
        if common and all(times.agree(skipped + at, trials.times[at], trials.units[at]) for at in range(common)):
            return skipped
    return None
