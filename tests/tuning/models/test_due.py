"""When regression checks are due: by the wall clock of a zone, through its changes and those of the machine's clock."""

from __future__ import annotations

import itertools
from datetime import datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from tuning.models.checking import HOURS, Schedule, next_due

BERLIN = ZoneInfo("Europe/Berlin")
UTC = ZoneInfo("UTC")
NIGHTLY = Schedule("day", time(2, 15), 0)


def at(text: str) -> datetime:
    """A time in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


def due(schedule: Schedule, now: str, zone: ZoneInfo = UTC, last: str | None = None) -> str:
    return next_due(schedule, zone, at(now), at(last) if last else None).strftime("%Y-%m-%d %H:%M")


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ("2026-11-23 00:00", "2026-11-23 02:15"),
        ("2026-11-23 02:14:59", "2026-11-23 02:15"),
        ("2026-11-23 02:15", "2026-11-24 02:15"),
        ("2026-12-31 12:00", "2027-01-01 02:15"),
    ],
)
def test_a_daily_one_is_due_once_a_day(now: str, expected: str) -> None:
    assert due(NIGHTLY, now) == expected


def test_the_time_of_day_is_the_zones() -> None:
    assert due(NIGHTLY, "2026-11-23 12:00", BERLIN) == "2026-11-24 01:15"
    assert due(NIGHTLY, "2026-07-23 12:00", BERLIN) == "2026-07-24 00:15"
    early = Schedule("day", time(0, 30), 0)
    assert due(early, "2026-07-22 22:29", BERLIN) == "2026-07-22 22:30"


@pytest.mark.parametrize(
    ("now", "expected"), [("2026-11-23 03:00", "2026-11-25 02:15"), ("2026-11-25 02:15", "2026-12-02 02:15")]
)
def test_a_weekly_one_is_due_on_its_day(now: str, expected: str) -> None:
    assert due(Schedule("week", time(2, 15), 2), now) == expected  # Wednesday; the 23rd is a Monday.


@pytest.mark.parametrize("every", [one for one, hours in HOURS.items() if hours < 24])
def test_parts_of_a_day_count_from_the_time_of_day(every: str) -> None:
    schedule, hours = Schedule(every, time(23, 15), 0), HOURS[every]
    now, found = at("2026-11-23 00:00"), []
    for _ in range(24 // hours + 1):
        now = next_due(schedule, UTC, now)
        found.append(now)
    assert any((one.hour, one.minute) == (23, 15) for one in found)
    assert {after - before for before, after in itertools.pairwise(found)} == {timedelta(hours=hours)}


def test_a_time_that_spring_skips_comes_an_hour_later_and_once() -> None:
    assert due(NIGHTLY, "2026-03-28 12:00", BERLIN) == "2026-03-29 01:15"  # 03:15 of the new time, instead of 02:15.
    assert due(NIGHTLY, "2026-03-29 01:15", BERLIN) == "2026-03-30 00:15"
    hourly = Schedule("hour", time(0, 15), 0)
    found = [due(hourly, now, BERLIN) for now in ("2026-03-29 00:00", "2026-03-29 00:15", "2026-03-29 01:15")]
    assert found == ["2026-03-29 00:15", "2026-03-29 01:15", "2026-03-29 02:15"]


def test_a_time_that_comes_twice_in_autumn_counts_once() -> None:
    assert due(NIGHTLY, "2026-10-24 12:00", BERLIN) == "2026-10-25 00:15"
    assert due(NIGHTLY, "2026-10-25 00:15", BERLIN, last="2026-10-25 00:15") == "2026-10-26 01:15"


@pytest.mark.parametrize(
    ("zone", "at", "spring"),
    [
        ("Europe/Berlin", time(2, 0), "2026-03-29 03:00"),
        ("Europe/Berlin", time(2, 30), "2026-03-29 03:30"),
        ("Europe/Berlin", time(3, 0), None),
        ("America/Santiago", time(0, 30), "2026-09-06 01:30"),
        ("Australia/Lord_Howe", time(2, 15), "2026-10-04 02:45"),
    ],
)
def test_every_day_of_a_year_has_one(zone: str, at: time, spring: str | None) -> None:
    """Clocks change at 2:00 in Berlin, at midnight in Santiago, and by half an hour on Lord Howe Island."""
    there, moment = ZoneInfo(zone), datetime(2026, 1, 1, tzinfo=ZoneInfo(zone))
    found: list[datetime] = []
    while moment.astimezone(there).year == 2026:
        moment = next_due(Schedule("day", at, 0), there, moment, found[-1] if found else None)
        found.append(moment)
    local = [one.astimezone(there) for one in found[:-1]]
    assert [one.timetuple().tm_yday for one in local] == list(range(1, 366))
    assert [f"{one:%Y-%m-%d %H:%M}" for one in local if one.time() != at] == ([spring] if spring else [])


def test_a_clock_that_is_set_back_repeats_nothing() -> None:
    done = "2026-11-23 02:15"
    assert due(NIGHTLY, "2026-11-23 02:14", last=done) == "2026-11-24 02:15"
    assert due(NIGHTLY, "2026-11-22 20:00", last=done) == "2026-11-24 02:15"


def test_a_clock_that_was_far_ahead_keeps_nothing_from_being_due() -> None:
    assert due(NIGHTLY, "2026-11-23 12:00", last="2027-11-23 02:15") == "2026-11-24 02:15"


def test_what_was_missed_long_ago_is_not_made_up_for() -> None:
    assert due(NIGHTLY, "2026-11-23 12:00", last="2026-10-01 02:15") == "2026-11-24 02:15"
