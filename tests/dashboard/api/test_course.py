"""Rounds, rankings and conditions of a run."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.world import make_machine, make_user, measured_run
from tuning.engines.wire.protocol import Ranked, Round
from tuning.models import Run
from tuning.work.course.conditions import Conditions
from tuning.work.recorder import Recorder

pytestmark = pytest.mark.django_db


@pytest.fixture
def client(client: Client) -> Client:
    client.force_login(make_user("viewer"))
    return client


def test_rounds_come_in_pages(client: Client) -> None:
    run = measured_run()
    Recorder(run).record([Round(None, 0, 0, 0.0, 1.5), Round(1, 0, 3, 1.5, 4.0, search_s=0.5, build_s=1.0)])
    first = client.get(f"/api/v1/runs/{run.pk}/rounds?limit=1").json()
    assert (first["items"][0]["task"], first["items"][0]["start_s"]) == (None, 1.5)
    second = client.get(f"/api/v1/runs/{run.pk}/rounds?limit=2&after={first['next']}").json()
    (one,) = second["items"]
    assert (one["task"], one["candidates"], one["began_s"], one["ended_s"]) == (1, 3, 1.5, 4.0)
    assert (one["search_s"], one["build_s"], one["measure_s"], one["other_s"]) == (0.5, 1.0, 0.0, 1.0)
    assert second["next"] is None


def test_rankings_are_those_of_a_task_if_one_is_given(client: Client) -> None:
    run = measured_run()
    ranked = [
        Ranked(task, 8, 2.5, correlation, [0.75, 0.25], [1e-3, 2e-3]) for task, correlation in ((0, 1.0), (1, None))
    ]
    Recorder(run).record(ranked)
    (one,) = client.get(f"/api/v1/runs/{run.pk}/rankings?task=1").json()["items"]
    assert {name: value for name, value in one.items() if name != "id"} == {
        "task": 1,
        "done": 8,
        "at_s": 2.5,
        "correlation": None,
        "scores": [0.75, 0.25],
        "latencies_s": [1e-3, 2e-3],
    }
    assert len(client.get(f"/api/v1/runs/{run.pk}/rankings").json()["items"]) == 2


def test_conditions_are_null_where_the_machine_told_nothing(client: Client) -> None:
    run = measured_run()
    machine = make_machine("lab-1", load={"cpus": 8, "others_cores": 1.5, "processor": {"governor": "powersave"}})
    Run.objects.filter(pk=run.pk).update(machine=machine)
    Conditions(Run.objects.get(pk=run.pk)).look(3.0, 2)
    found = client.get(f"/api/v1/runs/{run.pk}/conditions").json()
    assert found["samples"] == [
        {
            "machine": None,
            "at_s": 3.0,
            "done": 2,
            "others_cores": 1.5,
            "cpus": 8,
            "mhz": None,
            "least_mhz": None,
            "celsius": None,
        }
    ]
    (session,) = found["sessions"]
    assert (session["machine"], session["processor"]["governor"]) == ("lab-1", "powersave")
    assert (session["processor"]["turbo"], session["processor"]["model"]) == (None, None)


def test_runs_from_before_have_none(client: Client) -> None:
    run = measured_run()
    for part in ("rounds", "rankings"):
        assert client.get(f"/api/v1/runs/{run.pk}/{part}").json() == {"items": [], "next": None}
    assert client.get(f"/api/v1/runs/{run.pk}/conditions").json() == {"sessions": [], "samples": []}
