"""Reading the console log piece by piece, as it grows."""

from __future__ import annotations

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from tests.world import make_run
from tuning.models import Run
from tuning.reads.console import console, last_lines

pytestmark = pytest.mark.django_db


def run_that_printed(text: str) -> Run:
    run = make_run()
    run.work_dir.mkdir(parents=True, exist_ok=True)
    run.console_log.write_bytes(text.encode())
    return run


def test_it_returns_the_end_from_the_start_of_a_line() -> None:
    run = run_that_printed("first\nsecond\nthird\n")
    assert console(run, limit=10) == {"text": "third\n", "start": 13, "end": 19}


def test_it_returns_what_follows_an_offset() -> None:
    run = run_that_printed("first\n")
    end = console(run)["end"]
    with run.console_log.open("a") as log:
        log.write("second\n")
    assert console(run, after=end) == {"text": "second\n", "start": 6, "end": 13}


def test_it_is_empty_when_nothing_was_printed() -> None:
    assert console(make_run(), after=100) == {"text": "", "start": 0, "end": 0}


def test_an_offset_beyond_the_end_returns_nothing() -> None:
    assert console(run_that_printed("abc"), after=100) == {"text": "", "start": 3, "end": 3}


@given(text=st.text(max_size=40), limit=st.integers(min_value=4, max_value=9))
def test_pieces_join_to_the_whole_log_even_if_a_character_is_split(text: str, limit: int) -> None:
    run = Run(pk=10**6, created_at=timezone.now())
    run.work_dir.mkdir(parents=True, exist_ok=True)
    run.console_log.write_bytes(text.encode(errors="replace"))
    pieces, after = "", 0
    while (piece := console(run, after=after, limit=limit))["text"]:
        pieces += piece["text"]
        after = piece["end"]
    assert pieces == text.encode(errors="replace").decode()


def test_it_returns_the_last_lines_that_are_not_blank() -> None:
    assert last_lines(run_that_printed("a\n\nb\nc\n\n"), 2) == "b\nc"
