"""A pool's machines and their supervisor, for tests: as in a fleet, but all on this machine and in one process."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from typing_extensions import Self

from tests.tuning.engines.running import ROOT, Engine
from tuning.engines.wire import protocol
from tuning.engines.wire.pools import messages
from tuning.engines.wire.pools.messages import PoolEvent, PoolStart, Ready
from tuning.engines.wire.protocol import Candidate, Event, Failed, Measured, Slots
from tuning.work.warm_parent import ForkedEngine, WarmParent


def pool_start(machine: str, target: dict[str, Any], **changes: Any) -> PoolStart:
    given: dict[str, Any] = {
        "number": 3,
        "repeat": 1,
        "min_repeat_ms": 10,
        "build_timeout_s": 60.0,
        "run_timeout_s": 30.0,
    }
    return PoolStart(machine=machine, target=target, **given | changes)


class Machine:
    """A measuring process, started anew or forked from a warm parent. Leaving the context kills it."""

    def __init__(self, start: PoolStart, console: Path, warm: WarmParent | None = None) -> None:
        self.name = start.machine
        self.console = console
        self.holds: dict[str, Candidate] = {}
        self.wants = 0
        reader, writer = os.pipe()
        with console.open("ab") as log:
            if warm:
                process = warm.fork(log.fileno(), writer)
                assert process, "the warm parent forked none"
                self.process: Any = process
            else:
                command = [sys.executable, "-m", "tuning.engines.pool", "--events-fd", str(writer)]
                self.process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=log, stderr=log, pass_fds=[writer], cwd=ROOT
                )
        os.close(writer)
        self._events = os.fdopen(reader, "rb")
        self.write(protocol.encode(start))

    def write(self, line: bytes) -> None:
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def ask(self, *asked: Any) -> None:
        for one in asked:
            self.write(protocol.encode(one))

    def __iter__(self) -> Iterator[PoolEvent]:
        return map(messages.decode_event, self._events)

    def until(self, kind: type[Any] | tuple[type[Any], ...]) -> Any:
        """The next event of this kind, or of one of these."""
        for event in self:
            assert not isinstance(event, Failed), event
            if isinstance(event, kind):
                return event
        raise AssertionError(f"It ended before that. Its console:\n{self.console.read_text()[-3000:]}")

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(BrokenPipeError):
            self.process.stdin.close()  # It ends by itself.
        self.process.wait(60)
        if isinstance(self.process, ForkedEngine):
            self.process._status.close()  # Its own exit would wait for the end before it closes stdin.
        self._events.close()


class Supervisor:
    """Passes candidates to machines and their answers to the engine. What a dead machine held goes to others."""

    def __init__(self, engine: Engine, machines: list[Machine]) -> None:
        self.engine = engine
        self.machines = {machine.name: machine for machine in machines}
        self.given: list[str] = []
        """The id of each candidate as often as it was given to a machine."""
        self._waiting: deque[Candidate] = deque()
        self._told: queue.SimpleQueue[tuple[str | None, Any]] = queue.SimpleQueue()
        for name, source in [(None, engine), *self.machines.items()]:
            threading.Thread(target=self._read, args=(name, source), daemon=True).start()

    def _read(self, name: str | None, source: Engine | Machine) -> None:
        for event in source:
            self._told.put((name, event))
        self._told.put((name, None))

    def run(self, on_event: Callable[[Event], None] = lambda _: None) -> Event:
        """Until the engine ends; return its last event. `on_event` is called for each of the engine's."""
        while True:
            name, event = self._told.get(timeout=300)
            if name is None:
                if event is None:
                    return self.engine.seen[-1]
                if isinstance(event, Candidate):
                    self._waiting.append(event)
                on_event(event)
            else:
                self._heard(self.machines[name], event)
            self._hand_out()

    def _heard(self, machine: Machine, event: PoolEvent | None) -> None:
        assert not isinstance(event, Failed), event
        if event is None:
            self._waiting.extendleft(machine.holds.values())
            del self.machines[machine.name]
        elif isinstance(event, Ready):
            machine.wants = event.wants
        elif isinstance(event, Measured):
            machine.holds.pop(event.id)
            self.engine.write(protocol.encode(event))
            return
        self.engine.write(protocol.encode(Slots(sum(each.wants for each in self.machines.values()))))

    def _hand_out(self) -> None:
        for machine in self.machines.values():
            while self._waiting and len(machine.holds) < machine.wants:
                candidate = self._waiting.popleft()
                machine.holds[candidate.id] = candidate
                self.given.append(candidate.id)
                try:
                    machine.ask(candidate)
                except BrokenPipeError:
                    return  # Its end is read next.
