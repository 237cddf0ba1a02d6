from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.contrib.staticfiles import finders
from django.db.models.functions import Now
from django.test import Client
from pytest_django.asserts import assertContains, assertNotContains, assertRedirects

from tests.world import (
    TARGET,
    claimed,
    make_machine,
    make_run,
    make_tasks,
    make_user,
    measured_run,
    record_trials,
    share_first_project,
    task_infos,
    write_record_files,
)
from tuning.engines.wire.protocol import Confirmed, Plateaued, Preferred, TasksExtracted
from tuning.models import PoolMember, Run
from tuning.work.recorder import Recorder

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator(client: Client) -> Client:
    share_first_project()
    client.force_login(make_user("operator"))
    return client


def test_it_shows_a_run_without_scripts(operator: Client) -> None:
    run = measured_run()
    page = operator.get(f"/runs/{run.pk}/")
    assertContains(page, '<span data-role="estimate">7.000\u00a0ms</span>', html=True)
    assertContains(page, "2 of 2 tasks measured")
    assertContains(page, "14.3\u00a0%")
    assertContains(page, 'max="1" value="0.1428')  # of the estimate, not of the largest share
    assert [row["task"].index for row in page.context["rows"]] == [0, 1]


def test_it_invents_no_estimate(operator: Client) -> None:
    run = measured_run([(0, 1e-3)])
    page = operator.get(f"/runs/{run.pk}/")
    assertContains(page, '<span data-role="estimate">unknown</span>', html=True)
    assertContains(page, "1 of 2 tasks not measured")
    assert [row["share"] for row in page.context["rows"]] == [None, None]


def test_a_run_that_ended_before_its_first_trial_has_no_charts(operator: Client) -> None:
    ended = 'aria-label="Charts" data-role="charts" data-none>'
    assertContains(operator.get(f"/runs/{make_run(status=Run.Status.FAILED).pk}/"), ended)
    assertNotContains(operator.get(f"/runs/{make_run().pk}/"), ended)
    assertNotContains(operator.get(f"/runs/{measured_run(device='another').pk}/"), ended)


def test_it_says_in_the_first_line_why_a_run_failed(operator: Client) -> None:
    run = make_run(status=Run.Status.FAILED, error="All trials failed.\nRuntimeError: <boom>")
    page = operator.get(f"/runs/{run.pk}/")
    assertContains(page, "No tasks: the run ended before there were any.")
    assertContains(page, '<strong data-role="run-error-line">All trials failed.</strong>', html=True)
    assertContains(page, "RuntimeError: &lt;boom&gt;")


def test_it_alerts_and_groups_errors(operator: Client) -> None:
    run = measured_run([(0, None)] * 16 + [(1, 1e-3)])
    page = operator.get(f"/runs/{run.pk}/")
    assertContains(page, "all of its 16 trials failed")
    assertContains(page, "16×")


def test_it_says_that_a_task_is_tried_again_only_while_the_run_goes_on(operator: Client) -> None:
    run = measured_run([(0, None), (1, 1e-3)])
    again = "no valid trial, so there is no estimate. It is tried again while the budget lasts."
    assertContains(operator.get(f"/runs/{run.pk}/"), again)
    Run.objects.filter(pk=run.pk).update(status=Run.Status.STOPPED)
    page = operator.get(f"/runs/{run.pk}/")
    assertContains(page, "no valid trial, so there is no estimate.")
    assertNotContains(page, "It is tried again")


def test_it_marks_the_task_being_tuned(operator: Client) -> None:
    run = measured_run()
    Run.objects.filter(pk=run.pk).update(phase="searching", phase_task=1)
    page = operator.get(f"/runs/{run.pk}/")
    assert [row["active"] for row in page.context["rows"]] == [False, True]
    assertContains(page, "searching for candidates of task 1")


def test_it_shows_the_place_of_a_waiting_run(operator: Client) -> None:
    claimed(make_run())
    assertContains(operator.get(f"/runs/{make_run().pk}/"), "1 run ahead")


def test_the_number_of_queries_does_not_depend_on_the_tasks(
    operator: Client, django_assert_max_num_queries: Any
) -> None:
    run = claimed(make_run())
    make_tasks(run, 50)
    record_trials(run, [(index, 1e-3) for index in range(50)])
    # Session, user, permissions (2), run, tasks, tags, speed, errors, the user's role, compilations, whether this run or
    # any run has records (2), other runs of its network, its rounds, runs that continue it, whether there are others for
    # its target, and its machine's roofline.
    with django_assert_max_num_queries(20):
        operator.get(f"/runs/{run.pk}/")


def test_it_gives_figures_as_json(operator: Client) -> None:
    figures = operator.get(f"/runs/{measured_run().pk}/figures/").json()
    assert figures["last"] == 3
    assert figures["weights"] == [1, 2]
    assert figures["latency"]["data"][0]["y"] == [2e-3, 1e-3]


def test_it_gives_the_console_from_an_offset(operator: Client) -> None:
    run = make_run()
    run.work_dir.mkdir(parents=True)
    run.console_log.write_text("one\ntwo\n")
    assert operator.get(f"/runs/{run.pk}/console/").json()["text"] == "one\ntwo\n"
    assert operator.get(f"/runs/{run.pk}/console/?after=4").json() == {"text": "two\n", "start": 4, "end": 8}
    assert operator.get(f"/runs/{run.pk}/console/?after={'9' * 45_000}").json()["start"] == 0


def test_it_stops_a_run(operator: Client) -> None:
    run = make_run()
    assertRedirects(operator.post(f"/runs/{run.pk}/stop/"), f"/runs/{run.pk}/")
    run.refresh_from_db()
    assert run.status == Run.Status.STOPPED


def test_it_resumes_a_run(operator: Client) -> None:
    run = make_run(status=Run.Status.STOPPED)
    assertRedirects(operator.post(f"/runs/{run.pk}/resume/"), f"/runs/{run.pk}/")
    run.refresh_from_db()
    assert run.status == Run.Status.QUEUED


def test_it_says_why_it_could_not_stop(operator: Client) -> None:
    run = make_run(status=Run.Status.FINISHED)
    assertContains(operator.post(f"/runs/{run.pk}/stop/", follow=True), "only a queued or running run can be stopped")


@pytest.mark.parametrize("action", ["stop", "resume", "extend"])
def test_only_operators_can_change_a_run(client: Client, action: str) -> None:
    run = measured_run()
    client.force_login(make_user("viewer"))
    assert client.post(f"/runs/{run.pk}/{action}/").status_code == 403
    assert client.get(f"/runs/{run.pk}/{action}/").status_code == 405
    assertNotContains(client.get(f"/runs/{run.pk}/"), f'data-role="{action}"')
    run.refresh_from_db()
    assert run.status == Run.Status.RUNNING


def test_it_refuses_a_post_without_a_csrf_token(operator: Client) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = operator.cookies
    refusal = strict.post(f"/runs/{make_run().pk}/stop/")
    assertContains(refusal, "The form has expired", status_code=403)


@pytest.mark.parametrize("path", ["/runs/999/", "/runs/999/figures/", "/runs/999/console/", "/runs/999/tasks/0/"])
def test_unknown_runs_and_tasks_are_not_found(operator: Client, path: str) -> None:
    assertContains(operator.get(path), 'data-role="error-page"', status_code=404)


def test_plotly_uses_no_inline_styles(operator: Client) -> None:
    """The ids in parts/plotly.html that prevent them are those of the pinned version."""
    found = finders.find("plotly/plotly.min.js")
    assert isinstance(found, str)
    plotly = Path(found).read_text(encoding="utf-8")
    page = operator.get(f"/runs/{make_run().pk}/").content.decode()
    map_styles = "9f215cf04c5486422605d13261cb87401f4e7763b6296af81e98efbc0130da53"
    assert f'<meta id="{map_styles}">' in page
    assert f'getElementById("{map_styles}")' in plotly
    assert 'id="plotly.js-style-global"' in page
    assert '"plotly.js-style-"' in plotly


def test_it_extends_a_run(operator: Client) -> None:
    run = make_run(status=Run.Status.FINISHED, trials_budget=10, trials_done=10)
    assertRedirects(operator.post(f"/runs/{run.pk}/extend/", {"trials": "5"}), f"/runs/{run.pk}/")
    run.refresh_from_db()
    assert (run.status, run.trials_budget) == (Run.Status.QUEUED, 15)


def test_it_says_why_it_could_not_extend(operator: Client) -> None:
    run = make_run(status=Run.Status.FINISHED)
    page = operator.post(f"/runs/{run.pk}/extend/", {"trials": "-5"}, follow=True)
    assertContains(page, "Not extended. Must be a whole number from 1")
    assertContains(operator.post(f"/runs/{run.pk}/extend/", follow=True), "Enter how many trials to add")


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("budget", "finished: trial budget used up"),
        ("time_limit", "finished early: time limit of 1\u00a0min 30\u00a0s reached"),
        ("plateau", "no task improved by 2.5 % in 64 trials"),
        ("exhausted", "finished early: nothing left to try"),
    ],
)
def test_it_says_why_a_run_ended_by_itself(operator: Client, reason: str, words: str) -> None:
    options = {"plateau_percent": 2.5, "plateau_trials": 64}
    run = make_run(status=Run.Status.FINISHED, finish_reason=reason, time_limit_s=90.0, options=options)
    assertContains(operator.get(f"/runs/{run.pk}/"), words)


def test_it_says_what_a_warm_start_used(operator: Client) -> None:
    run = measured_run()
    assertNotContains(operator.get(f"/runs/{run.pk}/"), "start from records of")
    for runs, words in (([12], "run 12"), ([12, 15], "runs 12 and 15"), ([3, 12, 15], "runs 3, 12 and 15")):
        Run.objects.filter(pk=run.pk).update(warm_start={"tasks": [0, 1], "runs": runs})
        assertContains(operator.get(f"/runs/{run.pk}/"), f"2 of 2 tasks start from records of {words}")


def test_it_says_how_many_trials_are_noisy_and_alerts_while_it_goes_on(operator: Client) -> None:
    run = measured_run()
    page = operator.get(f"/runs/{run.pk}/")
    assertContains(page, 'data-role="noisy"></a>')
    assertNotContains(page, 'data-kind="disturbed"')
    run.move("running", to="running", trials_noisy=1, disturbed=["lab-1", "lab-2", "lab-3"])
    page = operator.get(f"/runs/{run.pk}/")
    assertContains(page, ">1 trial was measured while other processes used the machine</a>")
    assertContains(page, 'data-kind="disturbed"', 1)
    assertContains(page, "a quarter of the CPU of lab-1, lab-2 and lab-3,")
    run.move("running", to="finished", trials_noisy=1200)
    page = operator.get(f"/runs/{run.pk}/")
    assertContains(page, f'/runs/{run.pk}/trials/?only=noisy" data-role="noisy">1,200 trials were measured')
    assertNotContains(page, 'data-kind="disturbed"')


def test_the_estimate_of_chosen_tasks_is_labeled(operator: Client) -> None:
    run = claimed(make_run(options={"tasks": [1]}))
    first, second = task_infos(2)
    tasks = [msgspec.structs.replace(first, chosen=False), second]
    Recorder(run).record([TasksExtracted(TARGET, tasks)])
    record_trials(run, [(1, 3e-3)])
    page = operator.get(f"/runs/{run.pk}/")
    assertContains(page, "covers the chosen 1 of 2 tasks")
    assertContains(page, '<span data-role="estimate">6.000\u00a0ms</span>', html=True)
    assertContains(page, " data-unchosen", 1)
    assertContains(operator.get("/runs/"), "of the chosen 1 of 2 tasks")
    figures = operator.get(f"/runs/{run.pk}/figures/").json()
    assert figures["weights"] == [0, 2], "the page sums with these weights"
    assert figures["estimate"]["data"][0]["y"][-1] == 6e-3


def test_it_marks_a_task_on_a_plateau(operator: Client) -> None:
    run = measured_run()
    Recorder(run).record([Plateaued(1)])
    assertContains(operator.get(f"/runs/{run.pk}/"), " data-plateaued", 1)


def test_it_marks_a_task_that_another_one_counts_instead_of(operator: Client) -> None:
    run = measured_run()
    run.tasks.filter(index=1).update(weight=0)
    Recorder(run).record([Preferred(0, instead_of=1)])
    page = operator.get(f"/runs/{run.pk}/")
    assertContains(page, " data-spare", 1)
    assertContains(page, "Another task computes the same by another algorithm")


def links(page: Any) -> list[tuple[str, bool]]:
    """The files in the menu, and whether each is available."""
    found = re.findall(r'data-url="([^"]+)"( href=)?', page.content.decode())
    return [(url.replace("&amp;", "&").partition("/runs/")[2].partition("/")[2], bool(href)) for url, href in found]


def test_it_offers_available_downloads(operator: Client) -> None:
    run = claimed(make_run())
    make_tasks(run)
    url = f"/runs/{run.pk}/"
    nothing = operator.get(url)
    assert not any(ready for _, ready in links(nothing))
    assertContains(nothing, '<p class="missing" data-missing="best">No valid trial yet', html=False)
    record_trials(run, [(0, None)])
    some = dict(links(operator.get(url)))
    assert [name for name, ready in some.items() if not ready] == [
        "records?which=best&format=native",
        "records?which=best&format=jsonl",
        "console.log",
    ]
    record_trials(run, [(1, 1e-3)])
    write_record_files(run)
    run.console_log.write_text("printed")
    for name, ready in links(operator.get(url)):
        assert ready
        assert operator.get(f"/api/v1/runs/{run.pk}/{name}").status_code == 200, name


def test_it_offers_no_records_of_a_synthetic_run(operator: Client) -> None:
    page = operator.get(f"/runs/{measured_run(synthetic=True).pk}/")
    assert [name for name, ready in links(page) if ready] == ["trials.csv", "trials.parquet"]
    assertContains(page, "A synthetic run has no records.")


def test_it_shows_the_machines_of_a_pool(operator: Client) -> None:
    run = measured_run(machines_wanted=3)
    lab, slow = make_machine("lab-1"), make_machine("lab-2")
    for machine, values in (
        (lab, {"state": "measuring", "trials": 2, "failed": 1}),
        (slow, {"state": "left_out", "reason": "It is 8.0% slower than lab-1.", "differs": 0.08, "trials": 0}),
    ):
        PoolMember.objects.create(run=run, machine=machine, device="cpu", pool="1.a", joined_at=Now(), **values)
    PoolMember.objects.create(run=run, machine=make_machine("lab-3"), device="cpu", pool="1.a")
    page = operator.get(f"/runs/{run.pk}/")
    assert [row["machine"] for row in page.context["members"]] == ["lab-1", "lab-2"], "without who is only invited"
    assertContains(page, "100.0\u00a0%")
    assertContains(page, "left out")
    assertContains(page, "It is 8.0% slower than lab-1.")
    assertContains(page, "+8.0\u00a0%")
    assertNotContains(operator.get(f"/runs/{measured_run(device='cuda:0').pk}/"), 'data-role="machines"')


def test_a_machine_that_was_twice_in_a_pool_is_shown_once_with_all_its_trials() -> None:
    run, lab = measured_run(machines_wanted=2), make_machine("lab-1")
    for state, trials in (("lost", 3), ("measuring", 4)):
        PoolMember.objects.create(run=run, machine=lab, device="cpu", pool="1.a", state=state, trials=trials)
    assert [(one["state"], one["trials"]) for one in run.members()] == [("measuring", 7)]


def test_it_says_what_was_confirmed(operator: Client) -> None:
    run = measured_run([(0, 1e-3), (1, 2e-3)])
    Recorder(run).record([Confirmed(0, [1], [[1.2e-3, 1.22e-3, 1.2e-3, 1.18e-3, 1.21e-3]])])
    page = operator.get(f"/runs/{run.pk}/")
    assertContains(page, " data-confirmed ", 1)
    told = "Confirmed: 1.200\u00a0ms ±\u00a03\u00a0%, the median of 5 more measurements of trial 1’s record"
    assertContains(page, told, 1)
    assertContains(page, 'data-role="confirmed" hidden', 1)
    assertContains(page, "1 of 2 tasks confirmed")
    Recorder(run).record([Confirmed(1, [2], [[2e-3] * 5])])
    page = operator.get(f"/runs/{run.pk}/")
    assertContains(page, '<span data-role="confirmed-latency">5.200\u00a0ms</span>', 1)
    assertNotContains(page, "tasks confirmed")
