"""One run of a file that is watched: it takes the records of its own target."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from pathlib import Path
from typing import cast

from django.db import transaction
from django.utils import timezone

from tuning.logs import neutral
from tuning.logs.databases import DatabaseReader
from tuning.logs.lines import LineParser
from tuning.logs.meta_schedule import WORKLOADS
from tuning.logs.neutral import EngineName
from tuning.logs.workloads import Workload
from tuning.models import Run, Watch, fingerprint
from tuning.notify.announce import announce, announce_status
from tuning.storage import store
from tuning.work.failures import nothing_valid
from tuning.work.recorder import LeaseLost
from tuning.work.told import TasksTold, ToldTask
from tuning.work.told.clock import moment
from tuning.work.told.errors import error_text

from . import outside
from .firsts import workload
from .following import Follower, Place
from .outside import Measured

QUIET_AFTER = timedelta(minutes=10)
"""When nothing has come for this long, the run says so."""
QUIET, MEASURING = "quiet", "measuring"
TOO_MANY = "the file has records for more targets than are watched at once. Import it to get a run for each"

Meet = Callable[[neutral.Task, Place, int], bool]
"""Called with a task of another target, and the place and line from which on to read its records; whether a run takes them."""


class WatchedRun:
    """Follows the file for one claimed run, from where the run is. Raises `LeaseLost`, or a database error, from everything.

    The one with `meet` also answers for what is no other run's: bad lines, and the first record of another target.
    """

    def __init__(self, run: Run, follower: Follower | None = None, meet: Meet | None = None) -> None:
        self.run, self.meet = run, meet
        self.watch = Watch.objects.select_related("run").get(run=run)
        self.watch.run = run
        path = Path(self.watch.path)
        self.follower = follower or Follower(path, Place(self.watch.place, bytes(self.watch.before)))
        self.workloads: list[Workload | None] = []
        self.workload_lines = Follower(path.with_name(WORKLOADS))
        self.anew = not run.sessions
        self.seen: set[bytes] | None = None
        """Digests of the records that the run has, once the file was written anew."""
        self.indices = {task.workload_hash: task.index for task in run.tasks.all()}
        self.ours: dict[str, bool] = {}
        """Whether a task, by its key, is of this run's target."""
        self.parser = self._parser()
        self.parser.lines = self.watch.line

    def close(self) -> None:
        """Close the files."""
        self.follower.close()
        self.workload_lines.close()

    def take(self) -> bool:
        """Read and record what came; whether there is more."""
        before = self.follower.place
        try:
            news = self.follower.read()
        except OSError as error:
            self._note(f"The file can't be read: {error.strerror or error}.")
            return False
        self._note(None)
        if news.anew:
            before = Place()
            self._begin_anew()
        if news.lines:
            self._read_workloads()
            fresh = [line for line in news.lines if self._is_new(line)]
            self.parser.lines += len(news.lines) - len(fresh)
            self._record(fresh, before, len(news.lines))
        return news.more

    def renew(self) -> None:
        """Renew the lease, and read what users want."""
        if not self.run.renew():
            raise LeaseLost("it was taken away")

    def say_if_quiet(self) -> None:
        """Tell watchers whether something has come of late."""
        heard = self.watch.heard_at
        quiet = heard is not None and timezone.now() - heard > QUIET_AFTER
        phase = QUIET if quiet else MEASURING
        if phase != self.run.phase:
            self.run.phase = phase
            self.run.held().update(phase=phase)
            announce_status(self.run)

    def leave(self) -> None:
        """Leave the run to the next worker; a command has none. Whoever took the run away keeps it."""
        if self.watch.foreground:
            error = "Watching was ended. Watch the file again to continue."
            left = self.run.finish(to=Run.Status.INTERRUPTED, error=error)
        else:
            left = self.run.requeue(Run.Status.RUNNING, where=self.run.hold)
        if left:
            announce_status(self.run)

    def end(self) -> None:
        """End the run, unless it was taken away."""
        run = self.run
        run.refresh_from_db(fields=("trials_done", "trials_failed"))
        none_valid = run.trials_done > 0 and run.trials_done == run.trials_failed
        to = Run.Status.FAILED if none_valid else Run.Status.STOPPED
        if run.finish(to=to, error=nothing_valid(run) if none_valid else None):
            announce_status(run)

    def _parser(self) -> LineParser:
        name, engine = Path(self.watch.path).name, cast("EngineName", self.run.engine)
        if engine != "meta_schedule":
            return LineParser(name, engine)
        reader = DatabaseReader(name, {}, [], self.workloads)
        return LineParser(name, engine, reader)

    def _read_workloads(self) -> None:
        """Records come after their workloads."""
        if not self.run.is_meta_schedule:
            return
        while (news := self.workload_lines.read()).lines:
            self.workloads += [workload(line) for line in news.lines]

    def _begin_anew(self) -> None:
        """The file was rotated, truncated or replaced: another session. What of it the run has already isn't counted again."""
        self.watch.line, self.watch.began, self.watch.offset_s = 0, None, self.run.elapsed_s or 0.0
        self.anew = True
        self.workloads.clear()
        self.workload_lines.place = Place()
        self.parser = self._parser()
        self.seen = _digests(self.run.record_file, pair=self.run.is_meta_schedule)

    def _is_new(self, line: bytes) -> bool:
        return self.seen is None or _digest(line, pair=self.run.is_meta_schedule) not in self.seen

    def _record(self, lines: list[bytes], before: Place, read: int) -> None:
        found = self.parser.parse_lines(lines)
        all_trials = [each for each in found if isinstance(each, neutral.Trial)]
        trials = [each for each in all_trials if self._is_ours(each)]
        bad = [each for each in found if isinstance(each, neutral.BadLine)]
        begin, place = self.watch.line, self.follower.place
        self.watch.place, self.watch.before, self.watch.line = place.offset, place.before, begin + read
        with transaction.atomic():
            if self.meet:
                others = [each for each in all_trials if not self._is_ours(each)]
                outside.note_bad(self.run, bad + self._refused(others, self.meet, before, begin))
            if not trials:
                self.renew()
                self.watch.save()
                return
            self._note_session(trials)
            self.watch.heard_at = timezone.now()
            told = self._told(trials)
            lines_of = {
                one.index: str(one.task.workload).strip()
                for one in told
                if one.task.workload and self.run.is_meta_schedule
            }
            known = TasksTold(None, told) if told else None
            delta = outside.record(self.watch, [self._measured(trial) for trial in trials], known, lines_of)
        self.run.refresh_from_db(fields=("trials_done", "elapsed_s", "phase"))
        announce(self.run.pk, delta)

    def _refused(
        self, others: Collection[neutral.Trial], meet: Meet, before: Place, line: int
    ) -> list[neutral.BadLine]:
        """The trials of other targets that no run takes."""
        tasks = (self.parser.tasks[key] for key in dict.fromkeys(trial.task for trial in others))
        refused = {task.key for task in tasks if not meet(task, before, line)}
        return [neutral.BadLine(each.file, each.line, TOO_MANY) for each in others if each.task in refused]

    def _told(self, trials: Sequence[neutral.Trial]) -> list[ToldTask]:
        """Their tasks that are new."""
        found = []
        for task in {trial.task: self.parser.tasks[trial.task] for trial in trials}.values():
            if task.workload_hash not in self.indices:
                self.indices[task.workload_hash] = len(self.indices)
                found.append(ToldTask(self.indices[task.workload_hash], task))
        return found

    def _is_ours(self, trial: neutral.Trial) -> bool:
        """Whether it is of this run's target."""
        if trial.task not in self.ours:
            self.ours[trial.task] = target_key(self.parser.tasks[trial.task]) == self.run.target_fingerprint
        return self.ours[trial.task]

    def _measured(self, trial: neutral.Trial) -> Measured:
        index = self.indices[self.parser.tasks[trial.task].workload_hash]
        line = trial.record.decode(errors="replace").strip()
        record = (
            line.removeprefix("[").partition(",")[2].strip().removesuffix("]") if self.run.is_meta_schedule else line
        )
        text = error_text(self.run.engine, trial) if trial.error_kind else None
        return Measured(index, trial.latency_s, trial.error_kind, text, self._at_s(trial), record)

    def _at_s(self, trial: neutral.Trial) -> float | None:
        """Seconds of tuning: since the session's first record, which tells the earliest moment."""
        if trial.timestamp is None:
            return None
        began = trial.timestamp if self.watch.began is None else self.watch.began
        return self.watch.offset_s + max(0.0, trial.timestamp - began)

    def _note_session(self, trials: Sequence[neutral.Trial]) -> None:
        if not (self.anew and trials):
            return
        self.anew = False
        first = self.watch.began = trials[0].timestamp
        started = None if first is None else moment(first).isoformat()
        told = {"trial": self.run.trials_done + 1, "started_at": started, "tvm": self.parser.tvm_version}
        self.run.sessions = [*self.run.sessions, told]
        self.run.held().update(sessions=self.run.sessions)

    def _note(self, error: str | None) -> None:
        if self.run.error != error:
            self.run.error = error
            self.run.held().update(error=error)
            announce_status(self.run)


def target_key(task: neutral.Task) -> str:
    """Tells targets apart, as `Run.target_fingerprint` does."""
    return fingerprint(task.target or {})


def _digests(path: Path, *, pair: bool) -> set[bytes]:
    try:
        with store().opened(path) as file:
            return {_digest(line, pair=pair) for line in file}
    except FileNotFoundError:
        return set()


def _digest(line: bytes, *, pair: bool) -> bytes:
    """Of a record; in a pair of files, without the number of its workload, which may change."""
    record = line.partition(b",")[2] if pair else line
    return hashlib.blake2b(record.strip(), digest_size=12).digest()
