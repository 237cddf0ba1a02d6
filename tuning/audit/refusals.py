"""Which of many refusals are recorded, so that nobody can fill the audit log with them."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable

WINDOW_S = 60.0
MOST = 30
"""Different refusals of one source that are recorded in a window; of more, some are."""


class Refusals:
    """Counts refusals in windows of a minute, in this process.

    Of identical ones, the 1st, 2nd, 4th, 8th … is recorded and says so. After `MOST` different ones of the same source,
    a person or all strangers together, only each power of two of that source's refusals is.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._until = 0.0
        self._of_source: Counter[str] = Counter()
        self._kinds_of_source: Counter[str] = Counter()
        self._same: Counter[Hashable] = Counter()

    def counted(self, source: str, refusal: Hashable) -> dict[str, int] | None:
        """Count a refusal. The numbers to record with it, or None if it isn't to be recorded."""
        with self._lock:
            self._begin_window()
            self._of_source[source] += 1
            kind = (source, refusal)
            if not self._same[kind] and self._kinds_of_source[source] >= MOST:
                number = self._of_source[source]
                return {"refusals_within_a_minute": number} if _is_power_of_two(number) else None
            self._kinds_of_source[source] += not self._same[kind]
            self._same[kind] += 1
            times = self._same[kind]
            if not _is_power_of_two(times):
                return None
            return {"times_within_a_minute": times} if times > 1 else {}

    def _begin_window(self) -> None:
        if self._clock() >= self._until:
            self._until = self._clock() + WINDOW_S
            for counts in (self._of_source, self._kinds_of_source, self._same):
                counts.clear()


def _is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0
