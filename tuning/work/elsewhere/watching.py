"""Follows a log that another process writes, until it is told to end. Each target that it has records for is a run.

A file is watched for all of its runs or for none: they are claimed together, with one lease, and end together. But each of them
reads the file for itself and knows its own place, so none depends on how far another one came.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from tuning.host.reachable import DATABASE_OUTAGE
from tuning.logs import neutral
from tuning.models import Run, Watch
from tuning.notify.announce import announce_status
from tuning.wording import internal_error, target_names
from tuning.work.recorder import LeaseLost

from .following import Place
from .watched import WatchedRun, target_key

logger = logging.getLogger(__name__)
POLL_S = 1.0
RETRY_S = 2.0
MOST_TARGETS = 20
"""Of one file: each is a run that reads it."""
NAME_LENGTH = 200


def claim(run: Run) -> bool:
    """Claim all queued runs of the run's file, or none; False if the run isn't queued any more."""
    with transaction.atomic():
        watches = Watch.objects.of_file(run.watch.path, run.watch.project)
        queued = [watch.run for watch in watches.filter(run__status=Run.Status.QUEUED)]
        if run not in queued or not queued[0].claim():
            return False
        for other in queued[1:]:
            _claim_with(queued[0], other)
    run.refresh_from_db()
    return run.lease == queued[0].lease


def watch(run: Run, shutdown: threading.Event) -> str:
    """Follow the file of the claimed run, and of those that were claimed with it, until somebody stops one of them.

    Returns the run's status. When `shutdown` is set, all are queued again: whoever takes them goes on where this process stopped.
    """
    try:
        _patiently(run, shutdown)
    except LeaseLost as error:
        logger.warning("Run %s: %s; its file isn't watched here any more.", run.pk, error)
    except Exception as error:
        for each in _claimed_with(run):
            each.finish(to=Run.Status.FAILED, error=internal_error(error))
            announce_status(each)
        raise
    run.refresh_from_db(fields=("status",))
    return run.status


def begun(watch: Watch, **about: Any) -> Run:
    """A queued run; `watch` says how its file is read, and `about` is what is known of the run."""
    now = timezone.now()
    watch.run = Run.objects.create(origin=Run.Origin.WATCHED, project=watch.project, device="", queued_at=now, **about)
    watch.save()
    return watch.run


def _patiently(run: Run, shutdown: threading.Event) -> None:
    """Begin again where the database is, after it couldn't be reached."""
    while True:
        file = None
        try:
            file = _File(_claimed_with(run), shutdown)
            return file.follow()
        except DATABASE_OUTAGE as error:
            if shutdown.is_set():
                raise LeaseLost("the database can't be reached at shutdown") from error
            logger.warning("Run %s waits for the database: %s", run.pk, str(error).strip())
            connection.close()
            shutdown.wait(RETRY_S)
        finally:
            if file:
                file.close()


class _File:
    """The file with the claimed runs that it is. The first of them also looks for other targets."""

    def __init__(self, runs: list[Run], shutdown: threading.Event) -> None:
        if not runs:
            raise LeaseLost("it was taken away")
        self.shutdown = shutdown
        self.targets = {run.target_fingerprint for run in runs}
        self.first = WatchedRun(runs[0], meet=self._meet)
        self.runs = [self.first, *map(WatchedRun, runs[1:])]
        self.met: list[WatchedRun] = []
        """Runs of other targets that aren't among `runs` yet."""

    def close(self) -> None:
        for each in self.runs:
            each.close()

    def follow(self) -> None:
        """Until a run is to stop, or until shutdown. Raises `LeaseLost` once a run was taken away; the others are left, then."""
        for each in self.runs:
            announce_status(each.run)
        try:
            while True:
                more = self._take()
                if any(each.run.status == Run.Status.STOPPING for each in self.runs):
                    return self._end()
                if self.shutdown.is_set():
                    return self._leave()
                if not more:
                    self._wait()
        except LeaseLost:
            self._leave()
            raise

    def _take(self) -> bool:
        """Whether there is more."""
        more = self.first.take()
        self.runs += self.met
        for each in self.met:
            announce_status(each.run)
        self.met = []
        for each in self.runs:
            if each is not self.first:
                more |= each.take()
            each.renew()
        return more

    def _wait(self) -> None:
        for each in self.runs:
            each.say_if_quiet()
        self.shutdown.wait(POLL_S)

    def _end(self) -> None:
        with transaction.atomic():
            for each in self.runs:
                each.end()

    def _leave(self) -> None:
        with transaction.atomic():
            for each in self.runs:
                each.leave()

    def _meet(self, task: neutral.Task, place: Place, line: int) -> bool:
        """Begin the run of another target, or continue the one that there is; False if there is no room for it."""
        key = target_key(task)
        if key in self.targets:
            return True
        if len(self.targets) >= MOST_TARGETS:
            return False
        self.targets.add(key)
        first = self.first
        known = Watch.objects.of_file(first.watch.path, first.watch.project).filter(run__target_fingerprint=key).last()
        if known is None:
            made = _claim_with(first.run, self._another(task, place, line))
            self.met.append(WatchedRun(made, first.follower.another(place)))
        elif known.run.requeue(*Run.ENDED):
            self.met.append(WatchedRun(_claim_with(first.run, known.run)))
        return True

    def _another(self, task: neutral.Task, place: Place, line: int) -> Run:
        """The queued run of another target, which reads the file from there on."""
        run, known, target = self.first.run, self.first.watch, task.target or {}
        watch = Watch(project=run.project, path=known.path, foreground=known.foreground)
        watch.place, watch.before, watch.line = place.offset, place.before, line
        others = [each.run.target for each in (*self.runs, *self.met)]
        called = f" · {target_names([*others, target])[-1]}"
        about = {"engine": run.engine, "network": run.network, "created_by": run.created_by, "target": target}
        return begun(watch, name=run.name[: NAME_LENGTH - len(called)] + called, **about)


def _claim_with(first: Run, run: Run) -> Run:
    """Claim the queued run with the lease of the first."""
    if run.claim():
        run.lease = first.lease
        Run.objects.filter(pk=run.pk).update(lease=run.lease)
    return run


def _claimed_with(run: Run) -> list[Run]:
    """The runs of the file that this process holds, the oldest first."""
    watches = Watch.objects.of_file(run.watch.path, run.watch.project)
    return [watch.run for watch in watches.filter(run__lease=run.lease, run__status__in=Run.LIVE)]
