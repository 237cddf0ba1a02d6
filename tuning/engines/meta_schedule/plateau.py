"""When a task has stopped gaining. No TVM here."""

from __future__ import annotations

NEVER = float("inf")


class Plateau:
    """Watches one task: reached after `trials` trials in a row that together gained less than `percent` % of its best."""

    def __init__(self, percent: float, trials: int | None, best_s: float = NEVER) -> None:
        self._factor = 1 - percent / 100
        self._trials = trials
        self._reference_s = best_s
        self._since = 0

    @property
    def reached(self) -> bool:
        """Whether more trials of the task seem wasted."""
        return self._trials is not None and self._since >= self._trials

    def add(self, latency_s: float | None) -> None:
        """One more trial; None when it failed. The gain counts from the last time that there was enough of it."""
        if latency_s is not None and (latency_s <= self._reference_s * self._factor or self._reference_s == NEVER):
            self._reference_s, self._since = latency_s, 0
        else:
            self._since += 1
