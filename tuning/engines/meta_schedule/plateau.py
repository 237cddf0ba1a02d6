"""Detects when a task has stopped improving. No TVM here."""

from __future__ import annotations

UNMEASURED = float("inf")


class Plateau:
    """A task's plateau: reached after `trials` trials in a row that together improved it by less than `percent` %."""

    def __init__(self, percent: float, trials: int | None, best_s: float = UNMEASURED) -> None:
        self._factor = 1 - percent / 100
        self._trials = trials
        self._reference_s = best_s
        self._since = 0

    @property
    def reached(self) -> bool:
        """Whether more trials of the task would be wasted."""
        return self._trials is not None and self._since >= self._trials

    def add(self, latency_s: float | None) -> None:
        """Count a trial; None means it failed. Small gains add up: they are measured against the last large enough one."""
        if latency_s is not None and (latency_s <= self._reference_s * self._factor or self._reference_s == UNMEASURED):
            self._reference_s, self._since = latency_s, 0
        else:
            self._since += 1
