"""Where an engine's time goes. No TVM here.

The wall clock is divided among rounds without gaps: a round begins with its search and lasts until the next one begins. Within a
round, each second belongs to what the search's thread did. What background threads or a pool's machines did meanwhile is counted beside it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from tuning.engines.wire.protocol import Round

Kind = Literal["search", "learn", "build", "measure", "again", "wait"]


@dataclass
class RoundTimes:
    """A round that has begun, or the start of the process or its end, which have no task. Times are in seconds."""

    task: int | None
    done: int
    """Trials of the run that had ended when it began."""
    began_s: float
    ended_s: float | None = None
    seconds: dict[Kind, float] = field(default_factory=dict)
    candidates: int = 0
    left: int = 0
    """Candidates whose trial hasn't ended."""
    beside: dict[Kind, float] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        return self.ended_s is not None and self.left == 0

    def add_beside(self, kind: Kind, seconds: float) -> None:
        self.beside[kind] = self.beside.get(kind, 0.0) + seconds

    def event(self, now: float) -> Round:
        """What is known of it now."""
        own = {f"{kind}_s": seconds for kind, seconds in self.seconds.items()}
        beside = {f"beside_{kind}_s": seconds for kind, seconds in self.beside.items()}
        ended_s = now if self.ended_s is None else self.ended_s
        return Round(self.task, self.done, self.candidates, self.began_s, ended_s, **own, **beside)


class Stopwatch:
    """Times the rounds of one process. `elapsed_s` tells the seconds of tuning since the run began.

    `begin` and `doing` are for the search's thread, the rest for any.
    """

    def __init__(self, send: Callable[[Round], None], elapsed_s: Callable[[], float], began_s: float) -> None:
        self._send = send
        self._elapsed_s = elapsed_s
        self._lock = threading.Lock()
        self._round = RoundTimes(None, 0, began_s)
        self._unsent = [self._round]
        self._kind: Kind | None = None
        self._since = began_s
        self._closed = False

    def begin(self, task: int | None, done: int) -> RoundTimes:
        """End the current round and begin one of the task, or of none; `done` trials of the run have ended."""
        with self._lock:
            now = self._switch(self._kind)
            self._round.ended_s = now
            self._round = RoundTimes(task, done, now)
            self._unsent.append(self._round)
            self._send_ended()
            return self._round

    @contextmanager
    def doing(self, kind: Kind) -> Iterator[None]:
        """Count the time inside as this, and then go on with what was done before."""
        with self._lock:
            before = self._kind
            self._switch(kind)
        try:
            yield
        finally:
            with self._lock:
                self._switch(before)

    def hold(self, times: RoundTimes, candidates: int) -> None:
        """The round has so many candidates, and is told once their trials have ended."""
        with self._lock:
            times.candidates = times.left = candidates

    def ended(self, times: RoundTimes, *, build_s: float = 0.0, measure_s: float = 0.0) -> None:
        """A trial of the round has ended, of which this was done beside the search's thread."""
        with self._lock:
            times.left -= 1
            times.add_beside("build", build_s)
            times.add_beside("measure", measure_s)
            self._send_ended()

    def built_beside(self, times: RoundTimes, seconds: float) -> None:
        """So long, the round's candidates were built beside the search's thread. Their trials haven't all ended."""
        with self._lock:
            times.add_beside("build", seconds)

    def close(self) -> list[Round]:
        """The rounds that weren't told yet, as far as they got. Nothing is counted or told any more."""
        with self._lock:
            if self._closed:
                return []
            now = self._switch(self._kind)
            self._closed = True
            return [times.event(now) for times in self._unsent]

    def _switch(self, kind: Kind | None) -> float:
        now = self._elapsed_s()
        if self._kind is not None and not self._closed:
            seconds = self._round.seconds
            seconds[self._kind] = seconds.get(self._kind, 0.0) + now - self._since
        self._kind, self._since = kind, now
        return now

    def _send_ended(self) -> None:
        """In their order: a round that others still measure keeps later ones waiting."""
        while not self._closed and self._unsent and self._unsent[0].is_over:
            self._send(self._unsent.pop(0).event(0.0))
