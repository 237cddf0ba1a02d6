"""A run's pool, as the run's supervisor keeps it: invites machines, hands out candidates, and passes answers to the engine."""

from __future__ import annotations

import logging
import queue
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from itertools import islice
from typing import Any

import msgspec
from django.conf import settings
from django.db import connection
from django.utils import timezone
from kombu.exceptions import OperationalError as BrokerError
from redis.exceptions import RedisError
from typing_extensions import Self

from tuning.engines.wire.options.meta_schedule import Options
from tuning.engines.wire.pools.messages import FakeDevice, PoolStart
from tuning.engines.wire.protocol import Candidate, Control, Event, Measured, Phase, Pool, Slots, TasksExtracted
from tuning.host.reachable import DATABASE_OUTAGE
from tuning.models import Machine, PoolMember, Run
from tuning.models.fleet import MachineQuerySet
from tuning.storage.local import open_here

from . import channel, taking_part
from .channel import ALIVE_S, Channel, Told
from .dispatcher import Dispatcher, Member

logger = logging.getLogger(__name__)
TEND_S = 2.0
"""How often machines are invited, and what became of members is stored."""
LISTEN_S = 0.5
RETRY_S = 0.5
STUCK_S = 60.0
"""A run that no machine measures for this long ends, if it is known why."""
USUAL_WANTS = 5
"""As many as a measuring process builds at once, at most, and the one that it measures."""
FAKE = FakeDevice()
"""The device of each machine, if the run is synthetic."""

Invite = Callable[[PoolMember], None]
"""Tells the worker of a machine that it is invited."""


def asked_of_engine(run: Run) -> Pool | None:
    """What its engine is told of its pool; None if it has none. A machine that isn't registered can't have others beside it."""
    if not run.has_pool or run.machine is None:
        return None
    usual = min(USUAL_WANTS, run.machine.cores + 1) if run.machine.cores else USUAL_WANTS
    return Pool(slots=usual * max(1, _wanted(run)), synthetic=run.synthetic)


def _wanted(run: Run) -> int:
    """How many machines; as many as there are if all of them are."""
    return run.machines_wanted or 1 + sum(1 for _ in _equals(run))


def _equals(run: Run) -> list[Machine]:
    """The other machines that could be members now."""
    return _like(run, Machine.objects.taking_work())


def _like(run: Run, machines: MachineQuerySet) -> list[Machine]:
    """Those of the others that are equal to the run's own."""
    home = run.machine
    assert home
    return [one for one in machines.exclude(pk=home.pk) if run.device in one.devices and one.is_like(home)]


class RunPool:
    """A context manager, for as long as an engine runs. Its methods are for the supervisor's thread, which alone writes about members.

    One thread of its own talks to Redis and another one listens, so that an outage keeps the supervisor from nothing.
    """

    def __init__(
        self, run: Run, invite: Invite | None, send: Callable[[Control], None], changed: Callable[[], None]
    ) -> None:
        """`send` passes a control to the engine; `changed` is called when something about members has changed."""
        self._run = run
        self._ask = invite
        self._to_engine = send
        self._changed = changed
        self._disturbs = run.device == "cpu" and run.options.get("overlap") != "on"
        """Whether this machine measures nothing while it searches."""
        self._pool = f"{run.pk}.{secrets.token_hex(4)}"
        self._channel = Channel(channel.connect(settings.REDIS_URL), self._pool)
        self._app = channel.app_of(settings.CELERY_BROKER_URL, self._channel.queue, sends=True)
        self._to_say: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        """Of the dispatcher."""
        self._dispatcher: Dispatcher | None = None
        self._closed = threading.Event()
        self._home: threading.Thread | None = None
        self._rows: dict[int, PoolMember] = {}
        self._shown: dict[int, tuple[str, str]] = {}
        """By membership, its state and the reason as the console has told them."""
        self._lacking = 0
        """How many machines were fewer than wanted when it was last looked."""
        self._tended = self._measured_at = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        try:
            self._channel.close(list(self._rows))
        except RedisError as error:
            logger.warning("Pool %s wasn't removed, and expires: %s", self._pool, error)
        if self._home:
            self._home.join()
        self._app.close()
        try:
            for row in self._rows.values():
                row.move(PoolMember.State.INVITED, to=PoolMember.State.LEFT)
            if self._dispatcher:
                self._store(self._dispatcher)
        except DATABASE_OUTAGE as error:  # Rows that nobody renews hold nothing.
            logger.warning("What became of pool %s isn't stored: %s", self._pool, error)

    def take(self, events: Sequence[Event]) -> None:
        """Take what concerns the pool of what the engine has sent."""
        for event in events:
            if self._dispatcher is None:
                if isinstance(event, TasksExtracted):
                    self._open(event.target, event.cold_bytes or 0)
            elif isinstance(event, Candidate):
                with self._lock:
                    self._dispatcher.hand_out(event)
            elif isinstance(event, Phase) and self._disturbs:
                with self._lock:
                    self._dispatcher.searching(on=event.name != "measuring")

    def tend(self) -> None:
        """Invite whom the pool lacks, and store what has become of its members."""
        if self._dispatcher is None or time.monotonic() < self._tended + TEND_S:
            return
        for row in PoolMember.objects.unanswered().filter(pool=self._pool):
            row.move(PoolMember.State.INVITED, to=PoolMember.State.LEFT, reason=NO_ANSWER)
        PoolMember.objects.filter(pool=self._pool).lose()
        if self._store(self._dispatcher):
            self._changed()
        self._invite()
        self._tended = time.monotonic()

    @property
    def trouble(self) -> str | None:
        """Why nobody can measure, if that is so and won't change by itself."""
        if time.monotonic() < self._measured_at + STUCK_S:
            return None
        reasons = {
            row.machine.name: row.reason for row in self._rows.values() if row.reason and row.reason != NO_ANSWER
        }
        told = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        return f"No machine of the pool can measure. {told}" if told else None

    # --- for the dispatcher, on either thread, under the lock

    def send(self, candidate: Candidate) -> None:
        """See `Outside`."""
        self._to_say.put(partial(channel.send, self._app, self._channel.queue, candidate))

    def tell(self, member: int, *messages: Told) -> None:
        """See `Outside`."""
        self._to_say.put(partial(self._channel.tell, member, *messages))

    def answer(self, measured: Measured) -> None:
        """See `Outside`."""
        self._to_engine(measured)

    def slots(self, wanted: int) -> None:
        """See `Outside`."""
        self._to_engine(Slots(wanted))

    # --- its threads

    def _speak(self) -> None:
        while not self._closed.is_set():
            try:
                say = self._to_say.get(timeout=LISTEN_S)
            except queue.Empty:
                continue
            while not self._closed.is_set():
                try:
                    say()
                    break
                except (RedisError, BrokerError, OSError):  # The other thread tells the log.
                    self._closed.wait(RETRY_S)

    def _listen(self, dispatcher: Dispatcher, start: PoolStart) -> None:
        opened, cut_off = -ALIVE_S, False
        while not self._closed.is_set():
            try:
                if time.monotonic() > opened + ALIVE_S:
                    self._channel.keep_open(start)
                    opened = time.monotonic()
                said, waiting = self._channel.said(LISTEN_S), self._channel.waiting()
            except RedisError as error:
                if not cut_off:
                    logger.warning("Pool %s waits for Redis: %s", self._pool, error)
                cut_off, opened = True, -ALIVE_S  # Redis may come back empty.
                self._closed.wait(RETRY_S)
                continue
            with self._lock:
                if cut_off:
                    dispatcher.forgive()
                    cut_off = False
                for one in said:
                    dispatcher.heard(one)
                dispatcher.look_after(waiting + self._to_say.qsize())

    def _take_part(self, home: PoolMember) -> None:
        """The machine of the search is a member like the others."""
        try:
            taking_part.take_part(home, self._closed, "")
        except Exception:
            logger.exception("This machine takes no part in pool %s", self._pool)
        finally:
            connection.close()

    # --- members

    def _open(self, target: dict[str, Any], cold_bytes: int) -> None:
        """Now it is known what is measured: who joins, begins."""
        options = msgspec.convert(self._run.options, Options)
        start = PoolStart(
            machine="",
            target=target,
            number=options.number,
            repeat=options.repeat,
            min_repeat_ms=options.min_repeat_ms,
            build_timeout_s=options.build_timeout_s,
            run_timeout_s=options.run_timeout_s,
            build_workers=options.build_workers,
            overlap=options.overlap,
            cold_bytes=cold_bytes,
            fake=FAKE if self._run.synthetic else None,
        )
        self._dispatcher = Dispatcher(self, time.monotonic)
        self._tended, self._measured_at = -TEND_S, time.monotonic()
        self._to_say.put(partial(self._channel.keep_open, start))
        threading.Thread(target=self._speak, name="pool-speaks", daemon=True).start()
        listen = partial(self._listen, self._dispatcher, start)
        threading.Thread(target=listen, name="pool-listens", daemon=True).start()

    def _invite(self) -> None:
        assert self._run.machine
        known = PoolMember.objects.filter(pool=self._pool)
        lacking = _wanted(self._run) - known.wanted().count()
        taken = set(known.not_to_be_asked().values_list("machine", flat=True))
        if self._run.machine_id not in taken and lacking > 0:
            self._join_at_home(self._row(self._run.machine))
            lacking -= 1
        if self._ask is None:
            return
        free = (
            one
            for one in _equals(self._run)
            if one.pk not in taken and Run.objects.device_is_free(self._run.device, one)
        )
        asked = list(islice(free, max(0, lacking)))
        for machine in asked:
            self._ask(self._row(machine))
        self._tell_lacking(lacking - len(asked), taken)

    def _tell_lacking(self, lacking: int, known: set[int]) -> None:
        """Tell the console, once, of fewer machines than were asked for, and what is the matter with those that it doesn't know yet."""
        if lacking > 0 and lacking != self._lacking and self._run.machines_wanted:
            home = self._run.machine
            others = [one for one in _like(self._run, Machine.objects.all()) if one.pk not in known]
            why = ", ".join(f"{one} is {one.state}" for one in others[:NAMED]) or f"there is no other like {home}"
            self._say(f"{lacking} more {'machine is' if lacking == 1 else 'machines are'} waited for: {why}")
        self._lacking = lacking

    def _join_at_home(self, row: PoolMember) -> None:
        if taking_part.claim(row) and self._dispatcher:
            with self._lock:
                self._dispatcher.home = row.pk
            self._home = threading.Thread(target=self._take_part, args=(row,), name="home", daemon=True)
            self._home.start()

    def _row(self, machine: Machine) -> PoolMember:
        row = PoolMember.objects.create(run=self._run, machine=machine, device=self._run.device, pool=self._pool)
        self._rows[row.pk] = row
        return row

    def _store(self, dispatcher: Dispatcher) -> bool:
        """Write what has changed of the members; return whether anything has."""
        with self._lock:
            members = [copy(member) for member in dispatcher.members.values()]
        counted = [self._rows[member.key] for member in members if self._note(member)]
        if counted:
            PoolMember.objects.bulk_update(counted, ("trials", "failed", "differs", "noise"))
        changed = False
        for row in PoolMember.objects.filter(pool=self._pool).select_related("machine"):
            self._rows[row.pk] = row
            if row.state == PoolMember.State.MEASURING:
                self._measured_at = time.monotonic()
            if row.state in (PoolMember.State.LEFT, PoolMember.State.LOST):
                with self._lock:
                    dispatcher.gone(row.pk, row.state)
            changed |= self._tell(row)
        return changed or bool(counted)

    def _note(self, member: Member) -> bool:
        """Store the member's state; return whether there is more to store."""
        row = self._rows[member.key]
        if member.state in ("measuring", "left_out", "lost") and row.state != member.state:
            row.move(*PoolMember.ACTIVE, to=member.state, reason=member.reason)
        elif member.state == "checking" and row.reason != member.reason:
            row.move(PoolMember.State.CHECKING, to=PoolMember.State.CHECKING, reason=member.reason)
        elif member.state == "left" and member.reason and row.reason != member.reason:
            row.move(*PoolMember.ACTIVE, PoolMember.State.LEFT, to=PoolMember.State.LEFT, reason=member.reason)
        now = (member.trials, member.failed, member.differs, member.noise)
        if now == (row.trials, row.failed, row.differs, row.noise):
            return False
        row.trials, row.failed, row.differs, row.noise = now
        return True

    def _tell(self, row: PoolMember) -> bool:
        """Tell the console what is new of a member; return whether anything is."""
        now = (row.state, row.reason)
        if row.joined_at is None or self._shown.get(row.pk) == now:
            return False
        joined: tuple[str, str] = (PoolMember.State.CHECKING, "")
        # A quick member is measuring when it is first seen.
        steps = (now,) if row.pk in self._shown or row.state == PoolMember.State.CHECKING else (joined, now)
        for step in steps:
            self._print(row.machine, *step)
        self._shown[row.pk] = now
        return True

    def _print(self, machine: Machine, state: str, reason: str) -> None:
        self._say(f"{machine.name} {SAID[state]}{f': {reason}' if reason else ''}")

    def _say(self, said: str) -> None:
        """Tell the console."""
        with open_here(self._run.console_log, "ab") as console:
            console.write(f"{timezone.now():%Y-%m-%d %H:%M:%S} [INFO] Pool: {said}\n".encode())


NAMED = 3
"""Machines that the console names of those that are waited for."""
NO_ANSWER = "It didn't answer."
SAID = {
    "checking": "joins",
    "measuring": "measures",
    "left_out": "is left out",
    "left": "has left",
    "lost": "is lost",
}
"""By state."""
