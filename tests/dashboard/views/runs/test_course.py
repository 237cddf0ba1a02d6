"""The parts of a run's page that tell how it went."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.world import make_course, make_machine, make_run, make_user, measured_run
from tuning.engines.wire.protocol import ReferenceMeasured
from tuning.models import ConditionSession, Run
from tuning.wording import plus_minus
from tuning.work.recorder import Recorder
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


def pooled_run() -> Run:
    """Two machines measure it, and others use the second one."""
    run = told_run(machines_wanted=2)
    machines = [make_machine(name) for name in ("lab-2", "lab-10")]
    run.condition_samples.update(machine="lab-2")
    sample = run.condition_samples.all()[0]
    sample.pk, sample.machine, sample.others_cores = None, "lab-10", 7.5
    sample.save()
    (first,) = run.condition_sessions.all()
    ConditionSession.objects.create(run=run, at_s=5.0, machine="lab-10", processor=first.processor)
    ConditionSession.objects.create(run=run, at_s=6.0, machine="lab-3", processor={"governor": "performance"})
    run.trials.filter(number__in=(1, 2)).update(noisy=True, machine_id=machines[1].pk)
    run.trials.filter(number=3).update(noisy=True, machine_id=machines[0].pk)
    Run.objects.filter(pk=run.pk).update(trials_noisy=3)
    return run


def test_a_pools_machines_are_drawn_one_at_a_time_beginning_with_the_busiest(viewer: Client) -> None:
    run = pooled_run()
    found = part(viewer, run, "conditions")
    assert (found["machines"], found["machine"]) == (["lab-10", "lab-2"], "lab-10")
    by_name = {trace["name"]: trace for trace in found["figure"]["data"]}
    assert by_name["used by others"]["y"] == [7.5]
    assert by_name["noisy trials"]["x"] == [1, 2]
    other = viewer.get(f"/runs/{run.pk}/conditions/?machine=lab-2").json()
    by_name = {trace["name"]: trace for trace in other["figure"]["data"]}
    assert (other["machine"], by_name["used by others"]["y"]) == ("lab-2", [0.0, 0.5, 1.0, 1.5])
    assert by_name["noisy trials"]["x"] == [3]
    for strange in ("lab-3", "", "%00"):
        assert viewer.get(f"/runs/{run.pk}/conditions/?machine={strange}").json()["machine"] == "lab-10"


def test_machines_with_equal_processors_are_told_together(viewer: Client) -> None:
    run = pooled_run()
    html = part(viewer, run, "conditions")["html"]
    first = run.condition_sessions.all()[0].machine
    assert f'<dd class="mono">{first} and lab-10</dd>' in html
    assert '<dd class="mono">lab-3</dd>' in html
    assert f"Set performance on {first} and lab-10 for steadier" in html
    for number in range(4):
        processor = run.condition_sessions.all()[0].processor
        ConditionSession.objects.create(run=run, at_s=9.0, machine=f"more-{number}", processor=processor)
    assert f"{first}, lab-10, more-0, more-1 and 2 more</dd>" in part(viewer, run, "conditions")["html"]


def test_a_machine_that_no_longer_saves_power_isnt_warned_of(viewer: Client) -> None:
    run = told_run()
    (first,) = run.condition_sessions.all()
    ConditionSession.objects.create(run=run, at_s=9.0, machine=first.machine, processor={"governor": "performance"})
    assert "lowers frequencies" not in part(viewer, run, "conditions")["html"]


def test_noise_is_told_with_what_it_rests_on(viewer: Client) -> None:
    run = told_run()
    Recorder(run).record([ReferenceMeasured(1, 1e-3 * (1 + 0.01 * (at % 3)), at) for at in range(6)])
    assert "measured 6 times" in part(viewer, run, "conditions")["html"]
    noise = Run.objects.get(pk=run.pk).noise
    assert noise is not None
    assert f"{plus_minus(noise)} <span" in part(viewer, run, "conditions")["html"]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"status": "running"}, "told once one of its records was measured again 5 times"),
        ({"status": "finished"}, "tuned before Tuneboard recorded it"),
        ({"status": "failed", "trials_done": 0}, "the run ended before its first trial"),
        ({"status": "finished", "origin": "imported"}, "this run was tuned elsewhere"),
        ({"status": "finished", "engine": "autotvm"}, "engines under an older TVM don’t report it"),
        ({"status": "finished", "synthetic": True}, "a synthetic run measures nothing"),
    ],
    ids=["live", "earlier", "failed", "imported", "older TVM", "synthetic"],
)
def test_without_noise_it_says_why(viewer: Client, values: dict[str, Any], says: str) -> None:
    run = measured_run()
    Run.objects.filter(pk=run.pk).update(**values)
    found = part(viewer, run, "conditions")
    assert found["figure"] is None
    assert f'<dt>Noise</dt><dd>not recorded <span class="muted">{says}</span>' in found["html"]
    assert "Load of its devices" not in found["html"]


@pytest.mark.parametrize(
    ("cold_bytes", "says"),
    [
        (None, 'not recorded <span class="muted"></span>'),
        (0, 'in the caches <span class="muted">where one execution leaves them to the next</span>'),
        (
            44_700_000,
            'cold <span class="muted">up to 42.6\u00a0MB of others, and of results, are read before each execution, as in the network</span>',
        ),
    ],
)
def test_it_says_where_weights_come_from(viewer: Client, cold_bytes: int | None, says: str) -> None:
    assert f"<dt>Weights</dt><dd>{says}" in part(viewer, measured_run(cold_bytes=cold_bytes), "conditions")["html"]


@pytest.mark.parametrize(
    ("of_tasks", "says"),
    [
        ([44_700_000] * 2, "up to 42.6\u00a0MB of others, and of results, are read before each execution"),
        (
            [1_054_720, 44_700_000],
            "as in the network, where between 1.0\u00a0MB and 42.6\u00a0MB are touched between two uses of a task’s weights, these among them",
        ),
    ],
    ids=["alike", "shared"],
)
def test_it_says_how_tasks_differ_in_that(viewer: Client, of_tasks: list[int], says: str) -> None:
    run = measured_run(cold_bytes=44_700_000)
    for index, cold_bytes in enumerate(of_tasks):
        run.tasks.filter(index=index).update(cold_bytes=cold_bytes)
    assert f'<dt>Weights</dt><dd>cold <span class="muted">{says}' in part(viewer, run, "conditions")["html"]


def test_of_remote_devices_it_says_what_they_dont_tell(viewer: Client) -> None:
    run = measured_run(device="rpc:lab/board")
    html = part(viewer, run, "conditions")["html"]
    assert 'Load of its devices</dt><dd>not recorded <span class="muted">a tracker’s devices don’t tell it' in html


def test_a_short_run_says_that_nothing_was_measured_often_enough(viewer: Client) -> None:
    run = told_run()
    Run.objects.filter(pk=run.pk).update(status="finished")
    assert "no record was measured again 5 times" in part(viewer, run, "conditions")["html"]
