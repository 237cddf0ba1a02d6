"""Trials are stored as they were given, whichever way they are inserted."""

from __future__ import annotations

import math
import sys

import pytest
from django.db import IntegrityError, connection

from tests.world import claimed, make_run, make_tasks
from tuning.models import MAX_NUMBER, Run, Trial, TrialError, TrialRow, level_of_detail

pytestmark = pytest.mark.django_db

ODD = "a \"b\", c\\N\\.\t'd'\ne\u2028é"


@pytest.fixture
def run() -> Run:
    run = claimed(make_run())
    make_tasks(run)
    return run


def valid(run: Run, number: int, latency_s: float, *, at_s: float = 1.5, short: bool = False) -> TrialRow:
    task = run.tasks.get(index=0)
    return TrialRow(
        run.pk, task.pk, number, number, latency_s, None, None, short, at_s, level_of_detail(number), not short
    )


def failed(run: Run, number: int, error: TrialError | None, kind: str) -> TrialRow:
    row = valid(run, number, 1.0)
    return row._replace(latency_s=None, error_id=error.pk if error else None, error_kind=kind, improved=False)


def stored(run: Run) -> list[TrialRow]:
    return [TrialRow(*row) for row in run.trials.order_by("number").values_list(*TrialRow._fields)]


def test_every_column_is_stored_exactly(run: Run) -> None:
    error = TrialError.objects.create(run=run, kind="build", digest="d", text="text", first_trial=3, last_trial=3)
    rows = [
        valid(run, 1, 0.1 + 0.2, at_s=1e-9),
        valid(run, 2, sys.float_info.max, at_s=0.0, short=True),
        failed(run, 3, error, "build"),
        failed(run, 4, None, ODD),
        failed(run, 5, None, "\\N"),
        valid(run, MAX_NUMBER, math.ulp(1e-6)),
    ]
    Trial.objects.insert(rows)
    assert stored(run) == rows


@pytest.mark.skipif(connection.vendor != "postgresql", reason="only COPY reads an empty string as NULL")
def test_an_empty_kind_is_refused_rather_than_stored_as_null(run: Run) -> None:
    with pytest.raises(IntegrityError):
        Trial.objects.insert([failed(run, 1, None, "")])


def test_thousands_of_rows_are_stored_at_once(run: Run) -> None:
    rows = [valid(run, number, number * 1e-6) for number in range(1, 3001)]
    Trial.objects.insert(rows)
    assert stored(run) == rows


@pytest.mark.parametrize("numbers", [[], [2], range(1, 5000, 7)])
def test_one_of_finds_what_in_finds(run: Run, numbers: list[int]) -> None:
    Trial.objects.insert([valid(run, number, 1e-6) for number in range(1, 30)])
    found = run.trials.filter(number__one_of=numbers).order_by("number").values_list("number", flat=True)
    assert list(found) == [number for number in numbers if number < 30]
