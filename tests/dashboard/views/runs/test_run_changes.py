"""Bulk actions in the list of runs, and the same actions on a run's page."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from pytest_django.asserts import assertContains, assertNotContains

from tests.world import claimed, make_run, make_user, share_first_project
from tuning.actions.curation import change_tags
from tuning.models import Run

pytestmark = pytest.mark.django_db
PART = {"HX-Request": "true"}


@pytest.fixture
def operator(client: Client) -> Client:
    share_first_project()
    client.force_login(make_user("operator"))
    return client


def act(client: Client, *runs: Run, headers: Any = PART, **data: Any) -> Any:
    return client.post("/runs/act/", {"runs": ",".join(str(run.pk) for run in runs), **data}, headers=headers)


def tags(run: Run) -> list[str]:
    return list(run.tags.values_list("name", flat=True))


def test_it_changes_all_selected_runs_and_shows_the_same_page(operator: Client) -> None:
    runs = [make_run(name=f"run {number}", status="stopped") for number in range(3)]
    page = act(operator, *runs[:2], action="tag", tags="good, old", here="?q=run&order=name")
    assert [tags(run) for run in runs] == [["good", "old"], ["good", "old"], []]
    assertContains(page, "Tagged 2 runs.")
    assertContains(page, 'hx-get="/runs/?q=run&amp;order=name"')
    assertNotContains(page, "<html")
    act(operator, *runs, action="untag", tags="old")
    assert [tags(run) for run in runs] == [["good"], ["good"], []]


def test_one_refused_run_does_not_stop_the_others(operator: Client) -> None:
    ended, live = make_run(status="finished"), claimed(make_run())
    page = act(operator, ended, live, action="delete")
    assertContains(page, f"Deleted run {ended.pk}.")
    assertContains(page, f"Not run {live.pk}: The run is running: stop it before you delete it.")
    assert list(Run.objects.all()) == [live]


@pytest.mark.parametrize(("action", "show"), [("delete", "deleted"), ("archive", "archived")])
def test_archiving_and_deleting_can_be_undone(operator: Client, action: str, show: str) -> None:
    runs = [make_run(status="stopped") for _ in range(2)]
    page = act(operator, *runs, action=action)
    assert [run for run, _ in page.context["rows"]] == []
    assert len(operator.get("/runs/", {"show": show}).context["rows"]) == 2
    undo = {"delete": "restore", "archive": "unarchive"}[action] + ":" + ",".join(str(run.pk) for run in runs)
    assertContains(page, f'form="bulk" name="undo" value="{undo}"')
    page = act(operator, undo=undo)
    assert {run.pk for run, _ in page.context["rows"]} == {run.pk for run in runs}


def test_it_stops_pins_and_unarchives(operator: Client) -> None:
    waiting, archived = make_run(), make_run(status="stopped", archived=True)
    act(operator, waiting, action="stop")
    act(operator, waiting, action="pin")
    act(operator, archived, action="unarchive")
    waiting.refresh_from_db()
    assert (waiting.status, waiting.pinned) == ("stopped", True)
    assert [run.pk for run, _ in operator.get("/runs/").context["rows"]] == [waiting.pk, archived.pk]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"action": "explode", "runs": "1"}, "Must be one of"),
        ({"action": "pin", "runs": ""}, "Choose 1 to"),
        ({"action": "pin", "runs": "one"}, "run numbers"),
        ({"action": "pin", "runs": "9" * 30}, "run numbers"),
        ({"action": "tag", "runs": "1", "tags": " , "}, "Write at least one tag"),
        ({"action": "tag", "runs": "1", "tags": "<b>"}, "is not a tag"),
        ({"action": "pin", "runs": "4711"}, "There is no such run"),
        ({"undo": "explode:1"}, "Must be one of"),
        ({}, "Must be one of"),
    ],
)
def test_it_reports_invalid_parameters(operator: Client, data: Any, said: str) -> None:
    make_run()
    assertContains(operator.post("/runs/act/", data, headers=PART), said)


def test_without_scripts_it_redirects_to_the_list(operator: Client) -> None:
    run = make_run(status="stopped")
    response = act(operator, run, action="archive", here="q=mlp", headers={})
    assert response.headers["Location"] == "/runs/?q=mlp"
    assertContains(operator.get("/runs/?q=mlp"), f"Archived run {run.pk}.")


def test_viewers_change_nothing(client: Client) -> None:
    run = make_run(status="stopped")
    client.force_login(make_user("viewer"))
    assert act(client, run, action="delete").status_code == 403
    assert client.post(f"/runs/{run.pk}/marks/", {"action": "pin"}).status_code == 403
    assertNotContains(client.get(f"/runs/{run.pk}/"), 'data-role="pin"')


def test_a_run_is_tagged_and_pinned_from_its_page(operator: Client) -> None:
    run = make_run(status="stopped")
    change_tags(run, ["old"])
    url = f"/runs/{run.pk}/marks/"
    page = operator.post(url, {"action": "tag", "tags": "new"}, headers=PART)
    assertContains(page, 'value="old" aria-label="Remove the tag old"')
    assertContains(page, 'href="/runs/?tag=new"')
    assertNotContains(page, "<html")
    operator.post(url, {"untag": "old"}, headers=PART)
    assert operator.post(url, {"action": "pin"}).headers["Location"] == f"/runs/{run.pk}/"
    run.refresh_from_db()
    assert (tags(run), run.pinned) == (["new"], True)
    assertContains(operator.get(f"/runs/{run.pk}/"), 'value="unpin"')


def test_deleting_a_run_from_its_page_leads_to_the_list_with_undo(operator: Client) -> None:
    run = make_run(status="stopped")
    response = operator.post(f"/runs/{run.pk}/marks/", {"action": "delete"})
    assert response.headers["Location"] == "/runs/"
    assertContains(operator.get("/runs/"), f'value="restore:{run.pk}"')
    assert operator.get(f"/runs/{run.pk}/").status_code == 404


def test_a_live_run_is_not_deleted_and_the_page_says_why(operator: Client) -> None:
    run = claimed(make_run())
    response = operator.post(f"/runs/{run.pk}/marks/", {"action": "delete"})
    assert response.headers["Location"] == f"/runs/{run.pk}/"
    assertContains(operator.get(f"/runs/{run.pk}/"), "stop it before you delete it")


def test_a_queued_runs_priority_is_chosen_on_its_page(operator: Client) -> None:
    run = make_run()
    page = operator.get(f"/runs/{run.pk}/")
    assertContains(page, 'value="high" aria-pressed="false" disabled')
    page = operator.post(f"/runs/{run.pk}/priority/", {"priority": "low"}, follow=True)
    assertContains(page, 'value="low" aria-pressed="true"')
    assertContains(operator.get("/runs/"), "next, low priority")
    refused = operator.post(f"/runs/{run.pk}/priority/", {"priority": "high"}, follow=True)
    assertContains(refused, "Only the project&#x27;s admins may put a run before all others")
    run.refresh_from_db()
    assert run.priority == Run.Priority.LOW
    operator.force_login(make_user("admin"))
    operator.post(f"/runs/{run.pk}/priority/", {"priority": "high"})
    run.refresh_from_db()
    assert run.priority == Run.Priority.HIGH


def test_who_may_only_look_is_offered_no_priority(client: Client) -> None:
    client.force_login(make_user("viewer"))
    run = make_run(priority=Run.Priority.LOW)
    page = client.get(f"/runs/{run.pk}/")
    assertNotContains(page, 'data-role="priority"')
    assertContains(page, "<dt>Priority</dt><dd>low</dd>", html=True)
    assert client.post(f"/runs/{run.pk}/priority/", {"priority": "normal"}).status_code == 403
