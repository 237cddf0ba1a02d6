"""Where a run's time went."""

from __future__ import annotations

from typing import Any

import pytest

from tests.world import measured_run
from tuning.engines.wire.protocol import Round
from tuning.models import Run
from tuning.reads.course import rounds
from tuning.reads.course.rounds import time_of
from tuning.work.recorder import Recorder

pytestmark = pytest.mark.django_db


def run_of(*events: Round, **values: Any) -> Run:
    run = measured_run()
    Recorder(run).record(list(events))
    Run.objects.filter(pk=run.pk).update(**{"elapsed_s": 20.0, **values})
    run.refresh_from_db()
    return run


START = Round(None, 0, 0, 0.0, 2.0)
FIRST = Round(0, 0, 2, 2.0, 10.0, search_s=1.0, build_s=2.0, measure_s=4.0, learn_s=0.5)
SECOND = Round(1, 2, 1, 12.0, 17.0, search_s=3.0, wait_s=1.5, beside_measure_s=6.0)


def test_the_parts_of_the_time_sum_up_to_all_of_it() -> None:
    found = time_of(run_of(START, FIRST, SECOND))
    assert found is not None
    assert found["total"] == {
        "start_s": 2.0,
        "search_s": 4.0,
        "learn_s": 0.5,
        "build_s": 2.0,
        "measure_s": 4.0,
        "again_s": 0.0,
        "wait_s": 1.5,
        "other_s": pytest.approx(1.0),
        "beside_build_s": 0.0,
        "beside_measure_s": 6.0,
    }
    assert (found["recorded_s"], found["rest_s"]) == (15.0, 5.0)


def test_measuring_records_again_is_told_apart_and_confirming_belongs_to_no_task() -> None:
    again = Round(1, 2, 1, 10.0, 17.0, search_s=3.0, measure_s=2.0, again_s=1.5)
    found = time_of(run_of(START, FIRST, again, Round(None, 3, 0, 17.0, 19.0, again_s=1.75)))
    assert found is not None
    assert (found["total"]["start_s"], found["total"]["again_s"], found["rest_s"]) == (2.25, 3.25, 1.0)
    assert [one["again_s"] for one in found["tasks"]] == [0.0, 1.5]
    assert (found["pieces"][-1]["again_s"], found["pieces"][-1]["start_s"]) == (1.75, 0.25)


def test_each_task_has_its_share() -> None:
    found = time_of(run_of(START, FIRST, SECOND, Round(0, 3, 2, 17.0, 18.0, search_s=1.0)))
    assert found is not None
    assert [(one["task"], one["rounds"], one["candidates"], one["s"], one["search_s"]) for one in found["tasks"]] == [
        (0, 2, 4, 9.0, 2.0),
        (1, 1, 1, 5.0, 3.0),
    ]
    assert [one["other_s"] for one in found["tasks"]] == [pytest.approx(0.5), pytest.approx(0.5)]


def test_pieces_tell_what_is_in_no_round() -> None:
    found = time_of(run_of(START, FIRST, Round(1, 0, 1, 11.0, 12.0, search_s=1.0), SECOND))
    assert found is not None
    first, second = found["pieces"]
    assert (first["done"], first["began_s"], first["ended_s"], first["start_s"]) == (0, 0.0, 12.0, 2.0)
    assert first["unknown_s"] == pytest.approx(1.0), "a process was killed"
    assert (second["done"], second["search_s"]) == (2, 3.0)
    assert second["unknown_s"] == pytest.approx(0.0)


def test_long_runs_have_few_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "PIECES", 10)
    many = [Round(0, done, 1, float(done), done + 1.0, search_s=0.25) for done in range(40)]
    found = time_of(run_of(*many, trials_done=40))
    assert found is not None
    assert [one["done"] for one in found["pieces"]] == list(range(0, 40, 4))
    assert all(one["search_s"] == pytest.approx(1.0) and one["unknown_s"] == 0 for one in found["pieces"])


def test_of_a_run_from_before_nothing_is_made_up() -> None:
    assert time_of(run_of()) is None
