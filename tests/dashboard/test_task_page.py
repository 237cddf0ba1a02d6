from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from pytest_django.asserts import assertContains

from tests.world import claimed, make_run, make_tasks, make_user, measured_run, record_trials

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer(client: Client) -> Client:
    client.force_login(make_user("viewer"))
    return client


def test_it_shows_the_task_and_its_records(viewer: Client) -> None:
    run = measured_run([(0, 2e-3), (0, 1e-3), (0, None)])
    page = viewer.get(f"/runs/{run.pk}/tasks/0/")
    assertContains(page, "(1, 784) float32")
    assertContains(page, "prim_func")
    assert [(record["trial"], record["gap"]) for record in page.context["records"]] == [(2, 0.0), (1, 1.0)]
    assert page.context["records"][0]["gflops"] == pytest.approx(1.0)


def test_it_takes_no_hash_for_an_argument(viewer: Client) -> None:
    run = measured_run()
    rows = viewer.get(f"/runs/{run.pk}/tasks/1/").content.decode().split("function-title")[-1].split("<tbody>")[1]
    arguments, _, rest = rows.partition("</tbody>")
    assert arguments.count("<tr>") == 2
    assert "0000000000000001" in rest


def test_it_says_so_when_nothing_was_measured(viewer: Client) -> None:
    run = claimed(make_run())
    make_tasks(run)
    page = viewer.get(f"/runs/{run.pk}/tasks/1/")
    assertContains(page, "no valid trial yet")
    assertContains(page, "No record yet")


def test_it_draws_the_task_s_own_trials(viewer: Client) -> None:
    run = measured_run([(0, 2e-3), (1, 5e-3), (0, None), (0, 1e-3)])
    answer = viewer.get(f"/runs/{run.pk}/tasks/0/figures/").json()
    trials, _, failed, best = answer["curve"]["data"]
    assert answer["last"] == 4
    assert (trials["x"], failed["x"], best["x"]) == ([1, 4], [3], [1, 4])


def test_it_thins_trials_but_no_improvement(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dashboard.views.tasks.POINTS", 4)
    run = claimed(make_run())
    make_tasks(run, 1)
    record_trials(run, [(0, 1.0 / number) for number in range(1, 33)])
    trials, _, _, best = viewer.get(f"/runs/{run.pk}/tasks/0/figures/").json()["curve"]["data"]
    assert best["x"] == list(range(1, 33))
    assert trials["x"] == list(range(1, 33))
    record_trials(run, [(0, 2.0)] * 32)
    trials, _, _, best = viewer.get(f"/runs/{run.pk}/tasks/0/figures/").json()["curve"]["data"]
    assert trials["x"] == [*range(1, 33), 48, 64]


def test_it_reads_no_trace(viewer: Client, django_assert_max_num_queries: Any) -> None:
    run = measured_run()
    with django_assert_max_num_queries(8) as queries:
        viewer.get(f"/runs/{run.pk}/tasks/0/")
    assert not any('"tuning_record"."text"' in query["sql"] for query in queries.captured_queries)
