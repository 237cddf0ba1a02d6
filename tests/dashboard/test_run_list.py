from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from pytest_django.asserts import assertContains, assertNotContains

from tests.world import claimed, make_run, make_user, measured_run
from tuning.models import Run

pytestmark = pytest.mark.django_db
POLL = {"HX-Request": "true"}


@pytest.fixture
def operator(client: Client) -> Client:
    client.force_login(make_user("operator"))
    return client


def test_it_says_how_to_start_when_there_is_no_run(operator: Client) -> None:
    page = operator.get("/runs/")
    assertContains(page, 'data-role="empty"')
    assertContains(page, "manage.py tune")


def test_it_offers_a_viewer_no_launch(client: Client) -> None:
    client.force_login(make_user("viewer"))
    assertNotContains(client.get("/runs/"), "/runs/new/")


def test_it_shows_the_estimate_or_else_the_coverage(operator: Client) -> None:
    measured_run()
    measured_run([(0, 1e-3)], device="another")
    page = operator.get("/runs/")
    assertContains(page, "7.000\u00a0ms")
    assertContains(page, "1 of 2 tasks measured")


def test_it_filters_by_status_and_text(operator: Client) -> None:
    for name in ("wanted one", "other"):
        make_run(name=name)
    make_run(name="wanted but stopped", status=Run.Status.STOPPED)
    page = operator.get("/runs/", {"status": "queued", "q": "WANTED"})
    assertContains(page, "wanted one")
    assertNotContains(page, ">other<")
    assertNotContains(page, "wanted but stopped")


def test_it_says_so_when_nothing_matches(operator: Client) -> None:
    make_run()
    assertContains(operator.get("/runs/", {"q": "nowhere"}), "No run matches")


def test_it_escapes_what_users_named(operator: Client) -> None:
    make_run(name="<script>alert(1)</script>")
    assertNotContains(operator.get("/runs/", {"q": "<script>"}), "<script>alert")


def test_it_pages_through_many_runs(operator: Client) -> None:
    keys = [make_run(name=f"run {number}").pk for number in range(120)]
    shown: list[int] = []
    before: int | None = 10**9
    while before:
        page = operator.get("/runs/", {"before": before})
        shown += [run.pk for run, _ in page.context["rows"]]
        before = page.context["next_before"]
    assert shown == keys[::-1]


@pytest.mark.parametrize("before", ["x", "-1", "٣", "9" * 40])
def test_it_survives_a_bad_page(operator: Client, before: str) -> None:
    assert operator.get("/runs/", {"before": before}).status_code == 200


def test_it_shows_how_many_runs_a_queued_one_waits_for(operator: Client) -> None:
    claimed(make_run())
    make_run(device="another")
    waiting = [make_run() for _ in range(2)]
    places = {run.pk: ahead for run, ahead in operator.get("/runs/").context["rows"]}
    assert [places[run.pk] for run in waiting] == [run.place for run in waiting] == [1, 2]


def test_it_polls_fast_only_while_something_goes_on(operator: Client) -> None:
    run = make_run()
    assertContains(operator.get("/runs/"), 'hx-trigger="every 2s"')
    run.move(Run.Status.QUEUED, to=Run.Status.STOPPED)
    assertNotContains(operator.get("/runs/"), 'hx-trigger="every 2s"')


def test_it_gives_htmx_the_list_alone(operator: Client) -> None:
    make_run()
    assertNotContains(operator.get("/runs/", headers=POLL), "<html")


def test_it_asks_the_same_of_the_database_however_many_runs_there_are(
    operator: Client, django_assert_max_num_queries: Any
) -> None:
    for number in range(40):
        make_run(name=f"run {number}", created_by=make_user("viewer", f"user{number}"))
    with django_assert_max_num_queries(6):  # session, user, permissions (2), counts, runs
        operator.get("/runs/", {"status": "stopped"}, headers=POLL)
    with django_assert_max_num_queries(7):  # … and places
        operator.get("/runs/", headers=POLL)


@pytest.mark.parametrize(("reason", "shown"), [("time_limit", True), ("plateau", True), ("budget", False)])
def test_it_says_which_runs_ended_early(client: Client, reason: str, shown: bool) -> None:
    client.force_login(make_user("viewer"))
    make_run(status="finished", finish_reason=reason)
    page = client.get("/runs/").content.decode()
    assert ("ended at its time limit" in page or "ended on a plateau" in page) is shown
