"""When the trials of a log were measured, in seconds of tuning."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

from tuning.logs.neutral import Session, Trial
from tuning.models import SessionDict


class Clock:
    """Follows the trials of a run through the log's sessions, of which other runs may have a part.

    Seconds count from the first record, and go on in the next session where the last one ended: what lies between sessions isn't
    tuning. Timestamps go back within a batch, but a run's seconds don't.
    """

    def __init__(self, sessions: Sequence[Session]) -> None:
        self._coming = list(reversed(sessions))
        self._began: float | None = None
        self._offset_s = 0.0
        self.elapsed_s: float | None = None
        self.first: float | None = None
        self.last: float | None = None
        self.sessions: list[SessionDict] = []

    def tell(self, trial: Trial, number: int, tvm: str | None) -> float | None:
        """Seconds at which the trial, the run's `number`-th, was recorded; None if the log doesn't say."""
        begun = False
        while self._coming and self._coming[-1].first <= trial.number:
            self._coming.pop()
            begun = True
        if begun:
            self._begin(trial, number, tvm)
        if trial.timestamp is None:
            return None
        return self._at(trial.timestamp)

    def _begin(self, trial: Trial, number: int, tvm: str | None) -> None:
        self._began, self._offset_s = trial.timestamp, self.elapsed_s or 0.0
        started = None if trial.timestamp is None else moment(trial.timestamp).isoformat()
        self.sessions.append({"trial": number, "started_at": started, "tvm": tvm})

    def _at(self, timestamp: float) -> float:
        self._began = timestamp if self._began is None else self._began
        self.first = timestamp if self.first is None else self.first
        self.last = timestamp if self.last is None else max(self.last, timestamp)
        self.elapsed_s = max(self.elapsed_s or 0.0, self._offset_s + timestamp - self._began)
        return self.elapsed_s


def moment(timestamp: float) -> datetime:
    """The time of a timestamp in a log."""
    return datetime.fromtimestamp(timestamp, timezone.utc)
