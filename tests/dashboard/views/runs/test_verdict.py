"""The panel that says what is left to gain from a run."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from pytest_django.asserts import assertContains, assertNotContains

from dashboard.presentation.gaining.outline import EQUALLED, HELD, OUTLOOK, ROOF
from tests.world import make_machine, make_roofline, make_user, measured_run, share_first_project
from tuning.models import Project, Run

pytestmark = pytest.mark.django_db
OWN = [(0, 4e-3), (1, 3e-3)]
"""The estimate is 10 ms."""
SIMULATED = {"kind": "ext_dev", "device": "vta", "model": "sim_1x16_i8w8a32_15_15_18_17"}


@pytest.fixture
def viewer(client: Client) -> Client:
    client.force_login(make_user("viewer"))
    return client


@pytest.fixture
def operator(client: Client) -> Client:
    share_first_project()
    client.force_login(make_user("operator"))
    return client


def sentences(viewer: Client, run: Run) -> list[str]:
    page = viewer.get(f"/runs/{run.pk}/verdict/")
    found = re.findall(r'data-role="verdict-sentence">(.*?)</p>', page.content.decode())
    return [sentence.replace("\u00a0", " ") for sentence in found]


def another(*latencies: tuple[int, float | None], **values: Any) -> Run:
    return measured_run(latencies, device="", **values)


def test_it_says_nothing_if_nothing_is_known(viewer: Client) -> None:
    run = measured_run(OWN)
    assertContains(viewer.get(f"/runs/{run.pk}/verdict/"), "Told once each task has a latency, from 64 trials on.")
    run.move("running", to="finished")
    page = viewer.get(f"/runs/{run.pk}/verdict/")
    assertNotContains(page, "<p")
    assertContains(page, '<template data-role="gains"></template>', html=True)


def test_it_tells_what_equalling_others_would_gain(viewer: Client) -> None:
    run = measured_run(OWN)
    another((0, 1e-3), (1, 9e-3))
    assert sentences(viewer, run) == [
        "Other runs are faster in task 0: equalling them would gain 3.000 ms (30.0 % of the estimate)."
    ]
    another((1, 1e-3))
    held, sentence = sentences(viewer, run)
    assert held == "Task 1 holds 57 % of what can still be gained."
    assert sentence.startswith("Other runs are faster in 2 tasks, most of all in task 1: equalling them would gain")
    assert sentence.endswith("gain 7.000 ms (70.0 % of the estimate).")


def test_it_says_so_if_nobody_is_faster(viewer: Client) -> None:
    run = measured_run(OWN)
    another((0, 5e-3))
    assert sentences(viewer, run) == ["No other run is faster on task 0."]
    another((1, 5e-3))
    assert sentences(viewer, run) == ["No other run is faster on any of its tasks."]


def test_the_cells_lead_to_the_trial_and_name_another_machine(viewer: Client) -> None:
    run = measured_run(OWN, name="own")
    other = another((0, 1e-3), name="theirs")
    link = f'href="/runs/{other.pk}/tasks/0/?record=1#record"'
    page = viewer.get(f"/runs/{run.pk}/verdict/")
    assertContains(page, link)
    assertContains(page, 'title="Trial 1 of theirs, TVM not recorded"')
    Run.objects.filter(pk=other.pk).update(machine=make_machine("lab-7"))
    assertContains(viewer.get(f"/runs/{run.pk}/verdict/"), 'title="Trial 1 of theirs on lab-7, TVM not recorded"')


def test_the_api_tells_the_same(viewer: Client) -> None:
    run = measured_run(OWN)
    other = another((0, 1e-3))
    told = viewer.get(f"/api/v1/runs/{run.pk}/verdict").json()
    assert (told["run"], told["last"]) == (run.pk, 2)
    assert (told["if_equalled_s"], told["if_equalled"]) == pytest.approx((3e-3, 0.3))
    assert [task["best_known"] and task["best_known"]["run"] for task in told["tasks"]] == [other.pk, None]


LIVELY = [(0, 9e-3 / (1 + number)) for number in range(32)] + [(1, 1e-4)] * 32


def test_it_says_what_more_trials_bring_and_offers_them(operator: Client) -> None:
    run = measured_run(LIVELY)
    run.move("running", to="finished")
    (sentence,) = sentences(operator, run)
    assert re.fullmatch(
        r"Task 0 holds \d+ % of what can still be gained\. 20 more trials are expected to bring (up to \d+|\d+ to \d+) %\.",
        sentence,
    )
    page = operator.get(f"/runs/{run.pk}/verdict/")
    assertContains(page, f'href="/runs/new/?like={run.pk}&amp;trials=20&amp;warm_start=true&amp;tasks=0"')
    assertContains(page, 'data-trials="20"')
    form = operator.get(f"/runs/new/?like={run.pk}&trials=20&warm_start=true&tasks=0").context["form"]
    assert [form[name].value() for name in ("tasks", "trials", "warm_start")] == ["0", "20", "true"]


def test_a_gain_within_noise_is_told_as_such(viewer: Client) -> None:
    run = measured_run(LIVELY)
    Run.objects.filter(pk=run.pk).update(noise=0.9)
    assert sentences(viewer, run)[0].endswith(", within the run’s noise of ± 90 %.")


def test_a_viewer_is_offered_nothing(viewer: Client) -> None:
    run = measured_run(LIVELY)
    run.move("running", to="finished")
    page = viewer.get(f"/runs/{run.pk}/verdict/")
    assertContains(page, "more trials are expected")
    assertNotContains(page, "Tune just")
    assertNotContains(page, "Extend by")


def test_a_running_run_is_told_of_the_rest_of_its_budget(operator: Client) -> None:
    run = measured_run(LIVELY, trials_budget=80)
    assert "16 more trials are expected to bring" in sentences(operator, run)[0]
    assertNotContains(operator.get(f"/runs/{run.pk}/verdict/"), "Extend by")


def test_a_simulators_time_is_nothing_to_gain(viewer: Client) -> None:
    run = measured_run(OWN)
    another((0, 1e-3))
    Run.objects.filter(pk=run.pk).update(target=SIMULATED)
    assert sentences(viewer, run) == []


def outlined(client: Client, run: Run) -> tuple[list[str], list[str]] | None:
    """The sentences and buttons for which the run's page keeps room."""
    found: tuple[list[str], list[str]] | None = client.get(f"/runs/{run.pk}/").context["outline"]
    return found


def test_the_page_keeps_room_for_what_it_will_say(operator: Client) -> None:
    run = measured_run(OWN)
    assert outlined(operator, run) == ([OUTLOOK], ["Tune just these"])
    run.move("running", to="finished")
    assert outlined(operator, run) is None
    Run.objects.filter(pk=measured_run(OWN, device="").pk).update(project=Project.objects.create(name="hidden"))
    assert outlined(operator, run) is None
    another((0, 1e-3))
    assert outlined(operator, run) == ([HELD, EQUALLED], ["Tune just these", "Extend by 200 trials"])
    machine = make_machine("lab-1")
    make_roofline(machine)
    Run.objects.filter(pk=run.pk).update(machine=machine)
    assert outlined(operator, run) == ([HELD, EQUALLED, ROOF], ["Tune just these", "Extend by 200 trials"])
    Run.objects.filter(pk=run.pk).update(trials_done=64)
    assert outlined(operator, run) == ([OUTLOOK, EQUALLED, ROOF], ["Tune just these", "Extend by 200 trials"])


def test_where_it_turns_out_to_say_nothing_it_says_so(viewer: Client) -> None:
    run = measured_run(OWN)
    run.move("running", to="finished")
    other = another((0, 1e-3))
    other.tasks.update(workload_hash="another")
    assert outlined(viewer, run) == ([HELD, EQUALLED], [])
    assertContains(viewer.get(f"/runs/{run.pk}/verdict/"), "no other run that you see has measured its tasks")


@pytest.mark.parametrize(
    "values", [{"synthetic": True}, {"target": SIMULATED}, {"status": "failed", "tasks_measured": 0}], ids=str
)
def test_there_is_no_room_where_nothing_is_told(viewer: Client, values: dict[str, Any]) -> None:
    run = measured_run(OWN)
    another((0, 1e-3))
    Run.objects.filter(pk=run.pk).update(**values)
    assert outlined(viewer, run) is None


def on_a_known_machine(**roofline: Any) -> Run:
    """Of 10 ms, 9.95 are left to the machine's roofline."""
    machine = make_machine("lab-1")
    make_roofline(machine, **roofline)
    run = measured_run(OWN)
    Run.objects.filter(pk=run.pk).update(machine=machine)
    return run


def test_it_tells_how_far_the_tasks_are_from_their_roofs(viewer: Client) -> None:
    run = on_a_known_machine()
    assert sentences(viewer, run) == [
        "Task 1 holds 60 % of what is left to the roofline.",
        "At the roofline of lab-1 the tasks would take 50.00 µs, 99.5 % less.",
    ]
    page = viewer.get(f"/runs/{run.pk}/verdict/")
    assertContains(page, '0.2\u00a0% <small class="muted">compute</small>')
    assertContains(page, "on 3.6\u00a0KB, 274\u00a0FLOP a byte: bound by compute to at least 10.00\u00a0µs")


def test_a_roof_that_was_measured_under_load_may_be_too_low(viewer: Client) -> None:
    run = on_a_known_machine(others_cores=2.0)
    assert sentences(viewer, run)[-1].endswith(
        "99.5 % less, or even less: other processes used the machine while that was measured."
    )


def test_tasks_above_the_roofline_are_told(viewer: Client) -> None:
    run = on_a_known_machine(flops=1e8)
    assert sentences(viewer, run)[-1] == (
        "At the roofline of lab-1 the tasks would take 10.00 ms, 0.0 % less. 2 tasks are above it, so it was probably measured too low: "
        "have the machine measured again."
    )


def test_the_roofline_chart_has_roofs_and_tasks(viewer: Client) -> None:
    assert viewer.get(f"/runs/{measured_run(OWN, device='').pk}/roofline/").json() == {"figure": None}
    run = on_a_known_machine()
    figure = viewer.get(f"/runs/{run.pk}/roofline/").json()["figure"]
    names = [trace["name"].replace("\u00a0", " ") for trace in figure["data"]]
    assert names == [
        "64.0 KB at 400 GB/s",
        "2.0 MB at 100 GB/s",
        "64.0 MB at 10 GB/s",
        "100 GFLOPS on 2 threads",
        "0 fused_matmul0",
        "1 fused_matmul1",
    ]
    *_, compute, first, second = figure["data"]
    assert compute["y"] == [1e11, 1e11]
    assert (first["x"], first["y"]) == ([pytest.approx(1e6 / 3648)], [pytest.approx(1e6 / 4e-3)])
    assert second["marker"]["size"] > first["marker"]["size"], "it has the larger share"
    assert (first["text"], second["text"]) == (["0"], ["1"])
    told = figure["layout"]["meta"]["told"].replace("\u00a0", " ")
    assert told == "Shares of the roof: task 1 0.7 %, bound by compute; task 0 0.2 %, bound by compute."
    assert figure["layout"]["xaxis"]["type"] == figure["layout"]["yaxis"]["type"] == "log"
