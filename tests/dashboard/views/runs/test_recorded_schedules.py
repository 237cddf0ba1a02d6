"""Schedules that records of auto_scheduler and AutoTVM tell without TVM."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from pytest_django.asserts import assertContains, assertNotContains

from tests.world import claimed, make_run, make_tasks, make_user, trial
from tuning.models import Run
from tuning.work.recorder import Recorder

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer(client: Client) -> Client:
    client.force_login(make_user("viewer"))
    return client


def run_of(engine: str, *records: str) -> Run:
    """A run whose trials have these records, each faster than the last."""
    Run.objects.filter(status="running").update(status="finished")  # The device has one live run at a time.
    run = claimed(make_run(engine=engine))
    make_tasks(run, 1)
    Recorder(run).record([trial(latency_s=1.0 / number, record=text) for number, text in enumerate(records, start=1)])
    return run


def steps(*steps: list[Any]) -> str:
    return json.dumps({"i": [['["ab"]', "llvm"], [[], list(steps)]], "r": [[1e-3], 0, 1.0, 1], "v": "v0.6"})


def entities(*entities: list[Any]) -> str:
    return json.dumps({"input": ["llvm", "dense", [], {}], "config": {"entity": list(entities)}, "version": 0.2})


SPLIT = ["SP", 0, 0, 64, [8], 1]


def test_steps_are_told_in_words_with_the_loops_that_they_give(viewer: Client) -> None:
    run = run_of("auto_scheduler", steps(SPLIT, ["AN", 0, 0, 3]), steps(SPLIT, ["AN", 0, 1, 2], ["CI", 1]))
    page = viewer.get(f"/runs/{run.pk}/tasks/0/?record=2")
    assertContains(page, "Split i0 of S0 of extent 64 into 8 × 8")
    assertContains(page, "S0\n  for i0.0 (8)\n    vectorize i0.1 (8)")
    assertContains(page, "Inlined: S1.")
    assertNotContains(page, "Before and after")


def test_the_loops_of_two_records_are_compared(viewer: Client) -> None:
    run = run_of("auto_scheduler", steps(SPLIT, ["AN", 0, 0, 3]), steps(SPLIT, ["AN", 0, 0, 4]))
    page = viewer.get(f"/runs/{run.pk}/tasks/0/?record=2&diff=1")
    assert [hunk.changed for hunk in page.context["hunks"]] == [False, True, False]


def test_steps_that_cannot_be_explained_say_so_beside_those_that_can(viewer: Client) -> None:
    run = run_of("auto_scheduler", steps(SPLIT, ["ZZ", 1]))
    page = viewer.get(f"/runs/{run.pk}/tasks/0/?record=1")
    assertContains(page, "Split i0 of S0")
    assertContains(page, "the kind ZZ is unknown")


def test_the_best_records_have_their_knobs_side_by_side(viewer: Client) -> None:
    run = run_of("autotvm", entities(["tile_x", "sp", [4, 16]]), entities(["tile_x", "sp", [8, 8]]))
    page = viewer.get(f"/runs/{run.pk}/tasks/0/")
    assert [knob.values for knob in page.context["knobs"]] == [["8 × 8", "4 × 16"]]
    assertContains(viewer.get(f"/runs/{run.pk}/tasks/0/?record=1"), "<strong>4 × 16</strong>")


@pytest.mark.parametrize("engine", ["auto_scheduler", "autotvm"])
def test_a_broken_record_says_so(viewer: Client, engine: str) -> None:
    run = run_of(engine, "[0,1]")
    assertContains(viewer.get(f"/runs/{run.pk}/tasks/0/?record=1"), "isn&#x27;t a record of")


def test_records_of_meta_schedule_have_no_knobs(viewer: Client) -> None:
    run = run_of("meta_schedule", "[0,1]")
    assertNotContains(viewer.get(f"/runs/{run.pk}/tasks/0/"), "Knobs")


def test_the_api_gives_steps_and_knobs(viewer: Client) -> None:
    run = run_of("auto_scheduler", steps(SPLIT))
    told = viewer.get(f"/api/v1/runs/{run.pk}/tasks/0/records/1").json()
    assert (told["status"], told["schedule"], told["knobs"]) == ("made", None, None)
    assert told["steps"] == {
        "steps": ["Split i0 of S0 of extent 64 into 8 × 8"],
        "loops": ["S0", "  for i0.0 (8)", "    for i0.1 (8)"],
        "inlined": [],
        "trouble": None,
    }
    run = run_of("autotvm", entities(["tile_x", "sp", [-1, 8]]))
    told = viewer.get(f"/api/v1/runs/{run.pk}/tasks/0/records/1").json()
    assert told["knobs"] == [{"name": "tile_x", "kind": "split", "value": "rest × 8"}]
    run = run_of("autotvm", "[]")
    told = viewer.get(f"/api/v1/runs/{run.pk}/tasks/0/records/1").json()
    assert (told["status"], told["error"]) == ("failed", "It can’t be read: this isn't a record of AutoTVM.")
