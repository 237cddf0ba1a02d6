"""A line that repeats is shown once a minute."""

from __future__ import annotations

import logging
import time

import pytest

from tuning import quiet
from tuning.quiet import NoRepeats


def line(text: str, *args: object, name: str = "tuning.jobs") -> logging.LogRecord:
    return logging.LogRecord(name, logging.WARNING, __file__, 1, text, args, None)


def test_it_shows_a_line_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    repeats = NoRepeats()
    shown = []
    for second in range(0, 130, 10):
        now = float(second)
        shown += [second] if repeats.filter(line("Run %s waits", 1)) else []
    assert shown == [0, 60, 120]


def test_it_shows_other_lines_meanwhile() -> None:
    repeats = NoRepeats()
    assert repeats.filter(line("Run %s waits", 1))
    assert repeats.filter(line("Run %s waits", 2))
    assert repeats.filter(line("Run %s waits", 1, name="other"))
    assert not repeats.filter(line("Run %s waits", 1))


def test_it_forgets_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiet, "REMEMBERED", 2)
    repeats = NoRepeats()
    assert [repeats.filter(line(text)) for text in ("a", "b", "c", "a")] == [True] * 4
