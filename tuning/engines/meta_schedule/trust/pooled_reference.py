"""The reference of a run on many machines: whichever is free builds and measures it. No TVM here."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from statistics import fmean

import msgspec

from tuning.engines.measuring.outcomes import Failure, Timing
from tuning.engines.wire.protocol import Candidate, Measured
from tuning.engines.wire.protocol import Reference as Asked

from .reference import is_good, pause_s, tell_chosen, tell_failed


class PooledReference:
    """The first good trial's candidate, and when it is handed out next. Its methods are for the one thread that ends trials."""

    def __init__(
        self,
        asked: Asked,
        send: Callable[[Candidate], object],
        report: Callable[[int, float], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`send` hands a candidate out; `report` is given the trial and each latency in seconds."""
        self._asked = asked
        self._send = send
        self._report = report
        self._clock = clock
        self._chosen: tuple[int, Candidate] | None = None
        self._due = 0.0
        self._sought = True
        self._turns = itertools.count(1)
        self._out: str | None = None

    def use(self, trial: int, candidate: Candidate | None) -> None:
        """Go on with the reference of an earlier process of the run; None if it is lost. Then there is none anymore."""
        self._sought = False
        if candidate:
            self._choose(trial, candidate)

    def consider(self, trial: int, outcome: Timing | Failure, candidate: Callable[[], Candidate]) -> None:
        """Choose this trial if it is the first good one."""
        if self._sought and is_good(outcome):
            self._sought = False
            tell_chosen(trial)
            self._choose(trial, candidate())

    def hand_out_if_due(self) -> None:
        """Have it measured if that was long enough ago and nobody has it."""
        if self._chosen is None or self._out is not None or self._clock() < self._due:
            return
        _, candidate = self._chosen
        self._out = f"{candidate.id}-again-{next(self._turns)}"
        self._send(msgspec.structs.replace(candidate, id=self._out, limit_s=None, again=True))

    def awaits(self, candidate: str) -> bool:
        """Whether an answer to the candidate with this id is one to the reference."""
        return candidate == self._out

    def take(self, measured: Measured) -> None:
        """Take the answer that is awaited, and report its latency."""
        assert self._chosen
        self._out = None
        if measured.error_kind is None:
            used_s = (measured.build_s or 0.0) + (measured.measure_s or 0.0)
            self._due = self._clock() + pause_s(self._asked, used_s)
            self._report(self._chosen[0], fmean(measured.run_secs))
        else:
            tell_failed(Failure(measured.error_kind, measured.error or ""))
            self._chosen = None

    def _choose(self, trial: int, candidate: Candidate) -> None:
        self._due = self._clock() + self._asked.every_s
        self._chosen = trial, candidate
