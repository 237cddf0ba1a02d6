"""When a regression check is due: at times of the wall clock in the site's time zone, whatever is done to clocks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta, timezone
from typing import NamedTuple
from zoneinfo import ZoneInfo

HOURS = {
    "hour": 1,
    "2 hours": 2,
    "3 hours": 3,
    "4 hours": 4,
    "6 hours": 6,
    "8 hours": 8,
    "12 hours": 12,
    "day": 24,
    "week": 168,
}
"""By what a schedule says: the hours in between. A part of a day divides it, so that the times are the same every day."""
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
DAY = 24


class Schedule(NamedTuple):
    """`at` is a time of each day, from which parts of a day count; `weekday` counts from Monday as 0, and only for `week`."""

    every: str
    at: time
    weekday: int

    @property
    def period(self) -> timedelta:
        return timedelta(hours=HOURS[self.every])

    def beginning(self, day: date, zone: ZoneInfo) -> Iterator[datetime]:
        """The times that count from `at` on this day, in UTC; those of a part of a day go on into the next day.

        A time that the clocks skip in spring comes as much later; one that comes twice in autumn counts once.
        """
        if self.every == "week" and day.weekday() != self.weekday:
            return
        first = datetime.combine(day, self.at)
        for hours in range(0, DAY, min(DAY, HOURS[self.every])):
            yield (first + timedelta(hours=hours)).replace(tzinfo=zone).astimezone(timezone.utc)


def next_due(schedule: Schedule, zone: ZoneInfo, now: datetime, last: datetime | None = None) -> datetime:
    """The first time after `now`, in UTC, and after the one that it was `last` done for, if it was.

    So a clock that is set back doesn't repeat anything. If `last` is more than a period ahead, the clock was wrong then.
    """
    after = max(now, last) if last is not None and last - now <= schedule.period else now
    today = after.astimezone(zone).date()
    days = (today + timedelta(days=number) for number in range(-1, 9))
    return min(at for day in days for at in schedule.beginning(day, zone) if at > after)
