"""Supervises a claimed run to its end: starts the engine, records its events, renews the lease, stores why it ended."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from typing import TypeVar

from django.db import connection

from tuning.beneath import NotRegular
from tuning.engines.wire.protocol import (
    VERSION,
    Event,
    Extend,
    Failed,
    Finished,
    Hello,
    Hold,
    Start,
    TasksExtracted,
    TrialMeasured,
)
from tuning.host import devices, interpreters
from tuning.host.reachable import DATABASE_OUTAGE, is_disk_full
from tuning.models import Machine, PoolMember, Run, Tally
from tuning.notify.announce import announce, announce_status
from tuning.storage import Moved, store
from tuning.wording import internal_error

from .copies import Growing, RecordCopy, bring, release, rescue_console
from .course.conditions import Conditions
from .engine_process import AnyStart, BadEvent, EngineProcess
from .failures import death_notice, nothing_valid
from .pool.pooling import Invite, RunPool
from .recorder import EngineMisbehaved, LeaseLost, Recorder
from .starting import starting
from .warm_start import warm_start, warm_starts

logger = logging.getLogger(__name__)
T = TypeVar("T")
RENEW_S = 1.0
"""How often the lease is renewed, and whether users want the run stopped or extended is read."""
LOOK_S = 5.0
"""How often it is looked whether others disturb the machines that measure: as often as these tell their load."""
PACE_S = 0.1
"""Minimum time between two transactions: events that arrive meanwhile become one batch."""
STOP_GRACE_S = 15.0
"""An engine that was told to stop is killed after this time. Nothing is lost, since each trial is recorded when it ends."""
SHUTDOWN_GRACE_S = 5.0
"""The same at shutdown. `up` and Docker kill a worker after 10 s, and by then the run's end must be stored."""
RETRY_S = 2.0
PRINT_S = 0.3
"""How often, at most, new output of the engine is stored, for pages that another machine serves."""
HOLD_S = 20.0
"""If the database wasn't reached for this long, the engine is told to hold: after `LEASE` the run may be another machine's."""
GUARD_S = 0.5
"""How often that is looked at."""
COUNT_S = 5.0
"""How often the metrics learn how long the run has been tuned, and how fast its trials were recorded."""


def supervise(run: Run, shutdown: threading.Event, invite: Invite | None = None) -> str:
    """Tune the claimed run until it ends, and return its status.

    `invite` tells other machines that the run wants them; without it, this one does everything. When `shutdown` is set, the run ends `interrupted` and can be resumed.
    """
    try:
        return _Supervision(run, shutdown, invite).go()
    except LeaseLost as error:
        logger.warning("Run %s: %s; its engine was ended.", run.pk, error)
        run.refresh_from_db(fields=("status",))
        return run.status
    except Exception as error:
        # Without this the sweep would end it, but only the log would know why.
        run.finish(to=Run.Status.FAILED, error=internal_error(error))
        announce_status(run)
        raise


class _Supervision:
    def __init__(self, run: Run, shutdown: threading.Event, invite: Invite | None = None) -> None:
        self.run = run
        self.shutdown = shutdown
        self.invite = invite
        self.elapsed_before = run.elapsed_s or 0.0
        self.started = time.monotonic()
        self.renewed = self.paced = self.printed = 0.0
        self.reached = self.started
        """When the database was last reached."""
        self.counted = self.started
        self.lags: list[float] = []
        """Seconds from each trial to its announcement, of trials that weren't counted yet."""
        self.measuring = set() if devices.is_remote(run.device) else {run.machine_name}
        """Names of the machines whose load matters for the trials: the run's own, and those of its pool that have measured."""
        self.conditions = Conditions(run) if run.measured_by_machines else None
        self.stop_sent: float | None = None
        self.last: Finished | Failed | None = None
        self.is_shared = store().is_shared
        """Whether what the run writes must be stored for other machines."""
        self.console = Growing(run.console_log)
        self.recorder = self._patiently(self._new_recorder)

    def go(self) -> str:
        """Tune, and tune again with another engine if the run was extended just as the last engine ended."""
        self._patiently(lambda: announce_status(self.run))
        while (status := self._end(*self._tune())) is None:
            self.recorder = self._patiently(self._new_recorder)
        if self.is_shared:
            with suppress(*DATABASE_OUTAGE):
                release(self.run)
        return status

    def _new_recorder(self) -> Recorder:
        self.looked = float("-inf")
        return Recorder(self.run, RecordCopy(self.run) if self.is_shared else None)

    def _tune(self) -> tuple[str, str | None]:
        """Run one engine; return the run's new status and error."""
        self.last, self.stop_sent = None, None
        self.told = self._wanted()
        try:
            self._patiently(lambda: rescue_console(self.run))
            if self.is_shared:
                self._patiently(lambda: bring(self.run))
            start, console, interpreter = starting(self.run, self._elapsed_s())
            with EngineProcess(self.run.engine, start, console, interpreter) as engine:
                with self._guarded(engine), self._pool(start, engine) as pool:
                    trouble = self._watch(engine, pool)
                exit_status = None if trouble or self._overdue() else engine.wait(STOP_GRACE_S)
            self._store_console(last=True)
        except NotRegular as error:
            return Run.Status.FAILED, str(error)
        except OSError as error:
            what = "The disk is full" if is_disk_full(error) else "The engine could not be started"
            return Run.Status.FAILED, f"{what}: {error}."
        except (devices.NotAllowed, interpreters.NoInterpreter) as error:
            return Run.Status.FAILED, str(error)
        return (Run.Status.FAILED, trouble) if trouble else self._verdict(exit_status)

    def _store_console(self, *, last: bool = False) -> None:
        if not self.is_shared or not (last or time.monotonic() > self.printed + PRINT_S):
            return
        self.printed = time.monotonic()
        try:
            self._patiently(self.console.add_all if last else self.console.add)
        except Moved as error:
            raise LeaseLost(str(error)) from error

    def _pool(self, start: AnyStart, engine: EngineProcess) -> AbstractContextManager[RunPool | None]:
        """The pool of a run on many machines."""
        if not isinstance(start, Start) or start.pool is None:
            return nullcontext()
        return RunPool(self.run, self.invite, engine.send, lambda: announce_status(self.run))

    def _watch(self, engine: EngineProcess, pool: RunPool | None) -> str | None:
        """Read and record until the engine ends; return what the engine did wrong, if anything."""
        try:
            while not engine.ended and not self._overdue():
                time.sleep(max(0.0, self.paced + PACE_S - time.monotonic()))
                events = engine.read(timeout_s=RENEW_S / 2)
                self._record(events)
                self._answer(engine, events)
                self._store_console()
                self._renew(engine)
                if pool:
                    pool.take(events)
                    self._patiently(pool.tend)
                    if pool.trouble:
                        return pool.trouble
                if self.stop_sent is None and self._wants_stop():
                    self.stop_sent = time.monotonic()
                    engine.stop()
        except (BadEvent, EngineMisbehaved) as error:
            return f"The engine broke its protocol: {error}."
        return None

    def _record(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, Hello) and event.version != VERSION:
                raise EngineMisbehaved(
                    f"it speaks version {event.version} of the protocol, but this Tuneboard speaks version {VERSION}"
                )
            if isinstance(event, (Finished, Failed)):
                self.last = event
        if self._look(events) or events:
            delta = self._patiently(lambda: self.recorder.record(events))
            self.paced = time.monotonic()
            announce(self.run.pk, delta)
            now = time.monotonic()
            sent = [event.sent_at for event in events if isinstance(event, TrialMeasured)]
            self.lags += [now - each for each in sent if each is not None]

    def _look(self, events: Sequence[Event]) -> bool:
        """See whether others disturb the machines that measure; return whether that has changed."""
        members = {event.machine for event in events if isinstance(event, TrialMeasured) and event.machine}
        if members <= self.measuring and time.monotonic() < self.looked + LOOK_S:
            return False
        self.looked, self.measuring = time.monotonic(), self.measuring | members
        found = self.recorder.disturbed = self._patiently(Machine.objects.filter(name__in=self.measuring).disturbed)
        if found and self.run.has_pool:
            found &= self._patiently(self._members)
        run, before = self.recorder.run, self.recorder.run.disturbed
        run.disturbed = sorted(found)
        return bool(run.disturbed != before)

    def _answer(self, engine: EngineProcess, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, TasksExtracted) and warm_starts(self.run):
                ask = partial(warm_start, self.recorder.run, event.tasks)
                engine.send(self._patiently(ask))

    def _renew(self, engine: EngineProcess) -> None:
        if time.monotonic() < self.renewed + RENEW_S:
            return
        elapsed_s = self._elapsed_s()
        if not self._patiently(lambda: self.run.renew(elapsed_s=elapsed_s)):
            raise LeaseLost("it was taken away")
        self.recorder.run.elapsed_s = max(self.recorder.run.elapsed_s or 0.0, elapsed_s)
        if self.conditions:
            self._patiently(partial(self.conditions.look, elapsed_s, self.recorder.run.trials_done))
        if self._wanted() != self.told:
            self._extend(engine)
        self.renewed = time.monotonic()
        if self.renewed >= self.counted + COUNT_S:
            self._patiently(self._count)

    def _count(self) -> None:
        now = time.monotonic()
        amounts: dict[str, float] = {Tally.What.TUNED_S: now - self.counted}
        if self.lags:
            amounts |= {Tally.What.LAG_S: sum(self.lags), Tally.What.LAGS: len(self.lags)}
        members = self._members() if self.run.has_pool else set()
        tuned = {str(Tally.What.TUNED_S): now - self.counted}
        Tally.objects.add_each(
            self.run.device, dict.fromkeys(members, tuned) | {self.recorder.run.machine_name: amounts}
        )
        self.counted, self.lags = now, []

    def _members(self) -> set[str]:
        """Names of the machines that take part in the run's pool."""
        return set(PoolMember.objects.active().filter(run=self.run).values_list("machine__name", flat=True))

    def _wanted(self) -> tuple[int, float | None]:
        return self._budget, self.run.time_limit_s

    @property
    def _budget(self) -> int:
        """Every run that is launched has one."""
        assert self.run.trials_budget is not None
        return self.run.trials_budget

    def _extend(self, engine: EngineProcess) -> None:
        self.told = self._wanted()
        self.recorder.run.trials_budget, self.recorder.run.time_limit_s = self.told
        engine.send(Extend(*self.told))

    def _was_extended(self) -> bool:
        """Whether users extended the run after the engine was last told, and the engine ended having done what it was told."""
        held = self.run.renew() and self.run.status == Run.Status.RUNNING
        return held and isinstance(self.last, Finished) and self._wanted() != self.told

    def _elapsed_s(self) -> float:
        return self.elapsed_before + time.monotonic() - self.started

    def _wants_stop(self) -> bool:
        return self.shutdown.is_set() or self.run.status == Run.Status.STOPPING or self.run.drained_at is not None

    def _overdue(self) -> bool:
        grace_s = SHUTDOWN_GRACE_S if self.shutdown.is_set() else STOP_GRACE_S
        return self.stop_sent is not None and time.monotonic() > self.stop_sent + grace_s

    def _patiently(self, step: Callable[[], T]) -> T:
        """Repeat the step while the database can't be reached. Meanwhile the engine's pipe fills up, and it waits."""
        waited = False
        while True:
            try:
                done = step()
            except DATABASE_OUTAGE as error:
                if self.shutdown.is_set():
                    raise LeaseLost("the database can't be reached at shutdown") from error
                if not waited:
                    logger.warning("Run %s waits for the database: %s", self.run.pk, str(error).strip())
                waited = True
                connection.close()
                time.sleep(RETRY_S)
            else:
                self.reached = time.monotonic()
                return done

    @contextmanager
    def _guarded(self, engine: EngineProcess) -> Iterator[None]:
        """While the database isn't reached for long, the engine begins no new measurement. What it has sent is recorded in either case.

        A thread sees to it, since a query can be without an answer for minutes.
        """
        ended = threading.Event()
        guard = threading.Thread(target=self._guard, args=(engine, ended), name="guard")
        guard.start()
        try:
            yield
        finally:
            ended.set()
            guard.join()

    def _guard(self, engine: EngineProcess, ended: threading.Event) -> None:
        held = False
        while not ended.wait(GUARD_S):
            away = time.monotonic() > self.reached + HOLD_S
            if away != held:
                engine.send(Hold(away))
                held = away

    def _verdict(self, exit_status: int | None) -> tuple[str, str | None]:
        run = self.run
        counted = ("status", "trials_done", "trials_failed", "trials_budget")
        self._patiently(lambda: run.refresh_from_db(fields=counted))
        if isinstance(self.last, Failed):
            return Run.Status.FAILED, self.last.error
        if self.last is None and run.is_spent:
            self.last = Finished("budget")
            run.remove_artifacts()
        if isinstance(self.last, Finished) and self.last.reason != "stopped":
            none_valid = run.trials_done == run.trials_failed
            why = nothing_valid(run, self.last.reason) if none_valid else None
            return (Run.Status.FAILED if none_valid else Run.Status.FINISHED), why
        if run.status == Run.Status.STOPPING:
            return Run.Status.STOPPED, None
        if self.stop_sent is not None and self.run.drained_at is not None:
            machine = self.recorder.run.machine_name
            return Run.Status.INTERRUPTED, f"{machine} is being drained. Resume the run to continue where it stopped."
        if self.stop_sent is not None:
            return Run.Status.INTERRUPTED, "The worker was shut down. Resume the run to continue where it stopped."
        return Run.Status.FAILED, death_notice(run, exit_status)

    def _has_peers(self) -> bool:
        """Whether it matters which machine tuned."""
        return self.run.machine_id is not None and Machine.objects.exclude(pk=self.run.machine_id).exists()

    def _end(self, status: str, error: str | None) -> str | None:
        """Store the end; return the status, or None if the run was extended at the last moment and goes on."""
        reason = self.last.reason if isinstance(self.last, Finished) else None
        told = dict(zip(("trials_budget", "time_limit_s"), self.told, strict=True)) if reason else {}
        if status == Run.Status.FAILED and self._patiently(self._has_peers):
            error = f"On {self.recorder.run.machine_name}: {error}"
        values = {"error": error, "finish_reason": reason, "elapsed_s": self._elapsed_s()}
        ended = self._patiently(lambda: self.run.finish(to=status, where=told, **values))
        if not ended and self._patiently(self._was_extended):
            return None
        if not ended:
            raise LeaseLost("it was taken away")
        self._patiently(lambda: announce_status(self.run))
        self._patiently(self._count)
        return status
