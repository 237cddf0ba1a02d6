"""The parts of a run's page that tell how it went."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.world import make_course, make_run, make_user, measured_run
from tuning.models import Run
from tuning.work.synthetic import seed_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer(client: Client) -> Client:
    client.force_login(make_user("viewer"))
    return client


def part(client: Client, run: Run, name: str = "time") -> Any:
    return client.get(f"/runs/{run.pk}/{name}/").json()


def told_run(**values: Any) -> Run:
    run = measured_run([(0, 2e-3), (1, 3e-3), (0, 1e-3), (1, 1e-3)], **values)
    make_course(run)
    Run.objects.filter(pk=run.pk).update(elapsed_s=14.0)
    return run


def test_the_time_is_told_in_all_and_by_task(viewer: Client) -> None:
    found = part(viewer, told_run(options={"cost_model": "xgb"}))
    html = found["html"].replace("\u00a0", " ")
    assert 'Search <b class="num">4.0 s</b> <span class="muted num">28.6 %</span>' in html
    assert 'Measure again <b class="num">0.5 s</b>' in html
    assert 'Not in a round yet <b class="num">1.0 s</b>' in html
    assert html.count("<tr>") == 1 + 2
    assert "All rounds" in html
    assert "Measured beside" in html
    assert "ranks the candidates that it chooses well: 0.80" in html
    assert found["judged"] == [0, 1]
    assert [trace["name"] for trace in found["band"]["data"]] == [
        *("Start", "Search", "Learn", "Build", "Measure", "Measure again", "Wait", "Other"),
    ]
    for shares in zip(*(trace["y"] for trace in found["band"]["data"]), strict=True):
        assert sum(shares) == pytest.approx(1.0)
    assert found["band"]["data"][0]["x"] == [0, 1, 2, 3, 4]
    assert found["accuracy"]["data"][1]["y"] == pytest.approx([0.8] * 4)


def test_what_nobody_did_has_no_column(viewer: Client) -> None:
    run = told_run()
    run.rounds.update(wait_s=0, again_s=0, beside_measure_s=0)
    Run.objects.filter(pk=run.pk).update(status="finished")
    html = part(viewer, run)["html"]
    assert "Not in a round <b" in html
    assert "Wait" not in html
    assert "again" not in html
    assert "beside" not in html


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"status": "finished"}, "the run was tuned before Tuneboard recorded it"),
        ({"status": "running"}, "Shown from the end of the first round"),
        ({"status": "finished", "origin": "imported"}, "this run was tuned elsewhere"),
        ({"status": "finished", "engine": "autotvm"}, "engines under an older TVM don’t report it"),
        ({"status": "failed", "trials_done": 0}, "the run ended before its first round"),
    ],
    ids=["earlier", "begun", "imported", "older TVM", "failed"],
)
def test_without_rounds_a_line_says_why(viewer: Client, values: dict[str, Any], says: str) -> None:
    run = measured_run()
    Run.objects.filter(pk=run.pk).update(**values)
    found = part(viewer, run)
    assert says in found["html"]
    assert (found["band"], found["accuracy"], found["judged"]) == (None, None, [])


def test_of_queued_and_synthetic_runs_nothing_is_made_up(viewer: Client) -> None:
    assert "Shown from the end of the first round" in part(viewer, make_run())["html"]
    assert "a synthetic run has made-up trials" in part(viewer, seed_run(20, 2))["html"]


def test_candidates_are_shown_by_what_was_predicted_and_measured(viewer: Client) -> None:
    run = told_run()
    (trace,) = viewer.get(f"/runs/{run.pk}/time/predicted/?task=1").json()["data"]
    assert (trace["x"], trace["y"]) == ([1e-3, 3e-3, 2e-3, 4e-3] * 2, [0.9, 0.6, 0.4, 0.1] * 2)
    for wrong in ("7", "", "x", "9" * 5000):
        (trace,) = viewer.get(f"/runs/{run.pk}/time/predicted/?task={wrong}").json()["data"]
        assert len(trace["x"]) == (8 if wrong in ("", "x", "9" * 5000) else 0)


def test_the_machine_is_drawn_with_the_trials_that_others_disturbed(viewer: Client) -> None:
    run = told_run()
    run.trials.filter(number__in=(2, 3)).update(noisy=True)
    Run.objects.filter(pk=run.pk).update(trials_noisy=2)
    found = part(viewer, run, "conditions")
    by_name = {trace["name"]: trace for trace in found["figure"]["data"]}
    assert by_name["used by others"]["y"] == [0.0, 0.5, 1.0, 1.5]
    assert by_name["mean"]["y"] == [3.0] * 4
    assert by_name["noisy trials"]["x"] == [2, 3]
    assert found["figure"]["layout"]["meta"]["rows"] == 3
    assert "A CPU" in found["html"]
    assert "The governor powersave lowers frequencies" in found["html"]


def test_what_the_machine_doesnt_tell_has_no_row(viewer: Client) -> None:
    run = told_run()
    run.condition_samples.update(mhz=None, least_mhz=None, celsius=None)
    figure = part(viewer, run, "conditions")["figure"]
    assert [trace["name"] for trace in figure["data"]] == ["used by others"]
    assert figure["layout"]["meta"]["rows"] == 1
    run.condition_samples.update(others_cores=None)
    assert part(viewer, run, "conditions")["figure"] is None


def test_runs_from_before_have_no_strip(viewer: Client) -> None:
    assert part(viewer, measured_run(), "conditions") == {"figure": None, "html": "\n"}
