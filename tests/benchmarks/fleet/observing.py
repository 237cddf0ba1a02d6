"""One run on many machines with fake devices, supervised by this process, and what it costs.

The run is stopped when enough was seen. The machines' workers are threads of another process; each member has a process of its own, as in
a fleet.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

import msgspec
import psutil
from django.conf import settings
from django.db import connection

from tests.benchmarks.engine.sides import Broken
from tests.world import make_machine, make_run
from tuning.engines.wire.lifeline import die_with
from tuning.engines.wire.pools.messages import FakeDevice
from tuning.engines.wire.protocol import Candidate, Event, Measured
from tuning.host.machine import identity
from tuning.models import Machine, Network, PoolMember, Run
from tuning.work import engine_process, supervisor
from tuning.work.pool import pooling, taking_part
from tuning.work.pool.dispatcher import Dispatcher, Member

from .stamps import Stamps
from .usage import Meter, Statements, Usage, memory
from .web import web

BUDGET = 1_000_000
"""More trials than any of these runs gets."""
START_S, START_EACH_S = 60.0, 3.0
"""By then all machines have joined and were compared."""
LOOK_S = 0.25
KILL_AFTER_S = 3.0
WATCHERS = 10
ELSEWHERE_S = 60.0


class Plan(msgspec.Struct, frozen=True):
    """A run: on how many machines, with which devices, and for how long it is observed once all of them measure."""

    machines: int
    device: FakeDevice
    seconds: float
    stand_in: bool
    """An engine that hands out the same candidate again and again, in place of the real one."""
    kills: int = 0
    """So many machines are killed, one after another, in place of the time given."""


class Killed(msgspec.Struct, frozen=True):
    """A machine was killed with everything that ran there."""

    at_s: float
    member: int


class Observed(msgspec.Struct, frozen=True):
    """All but what is in the stamps."""

    members: list[int]
    began: Usage
    ended: Usage
    answered: list[str]
    """The candidates in the order of their trials."""
    memory: dict[str, int]
    """As `usage.memory` has it."""
    killed: list[Killed]


class Workers:
    """Processes with the machines' workers. The first ones have a process each, so that they can be killed."""

    def __init__(self, names: Sequence[str], alone: int) -> None:
        self.alone = names[:alone]
        self._processes: dict[str, subprocess.Popen[str]] = {}
        for group in [[name] for name in self.alone] + [list(names[alone:])]:
            self._processes |= dict.fromkeys(group, _child("machines", *group)) if group else {}

    def invite(self, member: PoolMember) -> None:
        """In place of a message to the machine's queue. A dead machine doesn't read it."""
        process = self._processes[member.machine.name]
        assert process.stdin
        with suppress(BrokenPipeError):
            process.stdin.write(f"{member.pk}\n")
            process.stdin.flush()

    def kill(self, name: str) -> None:
        """Kill the machine's worker and all that it has started."""
        worker = psutil.Process(self._processes[name].pid)
        for process in [worker, *worker.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def close(self) -> None:
        """Wait until all have ended."""
        for process in set(self._processes.values()):
            with suppress(BrokenPipeError):
                process.communicate()


class Observer(threading.Thread):
    """Waits until all machines measure, looks on, and has the run end."""

    def __init__(self, plan: Plan, workers: Workers, statements: Statements, shutdown: threading.Event) -> None:
        super().__init__(name="observer")
        self._plan, self._workers, self._meter, self._shutdown = plan, workers, Meter(statements), shutdown
        self.observed: Observed | None = None
        self.trouble: BaseException | None = None

    def run(self) -> None:
        """Give the result, or say why there is none."""
        try:
            self.observed = self._observe()
        except Exception as error:  # noqa: BLE001 - the main thread raises it
            self.trouble = error
        finally:
            self._shutdown.set()
            connection.close()

    def _observe(self) -> Observed:
        self._wait(
            lambda: len(_measuring()) == self._plan.machines, START_S + START_EACH_S * self._plan.machines, "measure"
        )
        members = _measuring()
        began = self._meter.read()
        killed = [self._kill(name) for name in self._workers.alone]
        if not killed:
            time.sleep(self._plan.seconds)
        ended = self._meter.read()
        used = memory()
        time.sleep(2 * self._plan.device.takes_s)  # What is in hand at the end of the time is part of it.
        return Observed(members, began, ended, list(_pool().answered), used, killed)

    def _wait(self, condition: Callable[[], bool], within_s: float, what: str) -> None:
        deadline = time.monotonic() + within_s
        while not condition():
            if time.monotonic() > deadline or self._shutdown.is_set():
                states = [(one.name, one.state, one.reason) for one in _members()]
                raise Broken(f"Not all machines {what} after {within_s:g} s: {states}")
            time.sleep(LOOK_S)

    def _kill(self, name: str) -> Killed:
        """Kill the machine once it has something in hand, and wait until that was measured elsewhere."""
        time.sleep(KILL_AFTER_S)
        (member,) = [one for one in _members() if one.name == name]
        self._wait(lambda: bool(member.holds), ELSEWHERE_S, "have something in hand")
        killed, held = Killed(time.monotonic(), member.key), set(member.holds)
        self._workers.kill(member.name)
        self._wait(lambda: held <= set(_pool().answered), ELSEWHERE_S, "are replaced")
        return killed


def _pool() -> NotingPool:
    assert NotingPool.current
    return NotingPool.current


def _members() -> list[Member]:
    """The dispatcher's."""
    pool = NotingPool.current
    return list(pool.dispatcher.members.values()) if pool and pool.dispatcher else []


def _measuring() -> list[int]:
    """Keys of the members that have measured something since they were found equal."""
    return [one.key for one in _members() if one.state == "measuring" and one.trials >= one.wants]


def _child(module: str, *args: str) -> subprocess.Popen[str]:
    ours, pipe = os.getpid(), subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-m", f"tests.benchmarks.fleet.{module}", *args],
        stdin=pipe,
        stdout=pipe if module == "watching" else sys.stderr,
        text=True,
        cwd=settings.BASE_DIR,
        preexec_fn=lambda: die_with(ours),  # noqa: PLW1509 - there is one thread yet
    )


class NotingPool(pooling.RunPool):
    """The product's own pool, which also notes when candidates come from the engine, and when their answers go there."""

    current: ClassVar[NotingPool | None] = None

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.answered: list[str] = []
        self._stamps = Stamps()
        NotingPool.current = self

    @property
    def dispatcher(self) -> Dispatcher | None:
        """Knows the members."""
        return self._dispatcher

    def take(self, events: Sequence[Event]) -> None:
        """See `RunPool`."""
        for event in events:
            if isinstance(event, Candidate):
                self._stamps.add("sent", event.id)
        super().take(events)

    def answer(self, measured: Measured) -> None:
        """See `RunPool`."""
        self._stamps.add("answered", measured.id)
        self.answered.append(measured.id)
        super().answer(measured)


def observe(plan: Plan) -> Observed:
    """Tune, look on, and end. Raises `Broken`."""
    pooling.FAKE = plan.device
    taking_part.MODULE = "tests.benchmarks.fleet.member"
    supervisor.RunPool = NotingPool  # type: ignore[assignment,attr-defined]
    if plan.stand_in:
        engine_process.ENGINES["meta_schedule"] = "tests.benchmarks.fleet.stand_in"
    machines = _machines(plan.machines)
    run = _queued(plan)
    others = [one.name for one in reversed(machines[1:])]
    workers, shutdown, statements = Workers(others, plan.kills), threading.Event(), Statements()
    with _watched(run), _beating(machines[0]):
        run.taker = machines[0]
        if not run.claim():
            raise Broken("The run can't be claimed.")
        observer = Observer(plan, workers, statements, shutdown)
        observer.start()
        with connection.execute_wrapper(statements):
            status = supervisor.supervise(run, shutdown, workers.invite)
        shutdown.set()
        observer.join()
        workers.close()
    if observer.observed is None or status != Run.Status.INTERRUPTED:
        run.refresh_from_db()
        raise Broken(f"The run is {status} ({run.error}): {observer.trouble}")
    return observer.observed


def _machines(count: int) -> list[Machine]:
    names = [f"machine-{number}" for number in range(1, count + 1)]
    return [make_machine(name, **({"key": identity.key()} if name == names[0] else {})) for name in names]


def _queued(plan: Plan) -> Run:
    network = Network.objects.create(fingerprint="matmul n=64", name="matmul", options={"n": 64})
    return make_run(
        name="bench_fleet",
        network=network,
        synthetic=True,
        machines_wanted=plan.machines if plan.machines > 1 else 0,  # All, which makes a pool of one.
        trials_budget=BUDGET,
        options={"strategy": "replay-trace", "trials_per_batch": 16, "seed": 1, "warm_start": False},
    )


@contextmanager
def _watched(run: Run) -> Iterator[None]:
    with web() as (serving, _):
        process = _child("watching", str(run.pk), str(WATCHERS))
        assert process.stdin
        assert process.stdout
        process.stdin.write(msgspec.json.encode(serving).decode() + "\n")
        process.stdin.flush()
        if not process.stdout.readline():
            raise Broken("The watchers ended early.")
        try:
            yield
        finally:
            process.terminate()
            process.wait()


@contextmanager
def _beating(machine: Machine) -> Iterator[None]:
    """This machine says that it is alive."""
    process = _child("machines", machine.name)
    try:
        yield
    finally:
        process.communicate()
