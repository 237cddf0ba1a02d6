"""The list of runs: filters, order, pages, and errors in the query."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone as clock
from pytest_django.asserts import assertContains, assertNotContains

from dashboard.views.runs import listing
from tests.world import claimed, make_compilation, make_machine, make_network, make_run, make_user, measured_run, on
from tuning.actions.curation import change_tags
from tuning.models import Benchmark, Project, Run

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]  # Each sorts by itself.
POLL = {"HX-Request": "true"}


@pytest.fixture
def operator(client: Client) -> Client:
    client.force_login(make_user("operator"))
    return client


def listed(client: Client, **query: Any) -> list[int]:
    page = client.get("/runs/", query)
    assert page.status_code == 200, page.context["wrong"]
    return [run.pk for run, _ in page.context["rows"]]


def test_it_says_how_to_start_when_there_is_no_run(operator: Client) -> None:
    page = operator.get("/runs/")
    assertContains(page, 'data-role="empty"')
    assertContains(page, "manage.py tune")


def test_viewers_can_neither_launch_nor_change_runs(client: Client) -> None:
    make_run()
    client.force_login(make_user("viewer"))
    page = client.get("/runs/")
    assertNotContains(page, "/runs/new/")
    assertNotContains(page, 'value="delete"')


def test_it_shows_the_estimate_or_the_coverage(operator: Client) -> None:
    measured_run()
    measured_run([(0, 1e-3)], device="another")
    page = operator.get("/runs/")
    assertContains(page, "7.000\u00a0ms")
    assertContains(page, "unknown: 1 of 2 tasks not measured")


def test_it_draws_a_sparkline_of_the_estimate(operator: Client) -> None:
    measured_run([(0, 2e-3), (1, 3e-3), (0, 1e-3), (1, 2e-3)])
    page = operator.get("/runs/").content.decode()
    assert 'aria-label="Estimate from 8.000\u00a0ms at trial 2 to 5.000\u00a0ms"' in page
    assert "style=" not in page.partition('<svg class="spark"')[2].partition("</svg>")[0]


def test_it_filters_by_status_and_text(operator: Client) -> None:
    for name in ("wanted one", "other"):
        make_run(name=name)
    make_run(name="wanted but stopped", status=Run.Status.STOPPED)
    page = operator.get("/runs/", {"status": "queued", "q": "WANTED"})
    assertContains(page, "wanted one")
    assertNotContains(page, ">other<")
    assertNotContains(page, "wanted but stopped")


def test_it_filters_by_network_target_tag_and_date(operator: Client) -> None:
    plain = make_run()
    network = make_run(network=make_network("own"))
    target = make_run(target={"kind": "cuda"})
    tagged = make_run()
    change_tags(tagged, ["good", "old"])
    early = make_run()
    Run.objects.filter(pk=early.pk).update(created_at=datetime(2026, 1, 31, 23, 59, 59, 500_000, timezone.utc))
    assert listed(operator, network="own") == [network.pk]
    assert listed(operator, target=target.target_fingerprint) == [target.pk]
    assert listed(operator, tag="Good") == listed(operator, tag=["good", "old"]) == [tagged.pk]
    assert listed(operator, tag=["good", "absent"]) == []
    assert (
        listed(operator, until="2026-01-31") == listed(operator, since="2026-01-31", until="2026-01-31") == [early.pk]
    )
    assert listed(operator, since="2026-02-01", until="9999-12-31") == [tagged.pk, target.pk, network.pk, plain.pk]
    assert listed(operator, network="own", tag="good") == []


def test_archived_and_deleted_runs_are_shown_only_when_asked_for(operator: Client) -> None:
    current, archived, deleted = make_run(), make_run(archived=True), make_run(deleted_at=clock.now())
    assert listed(operator) == [current.pk]
    assert listed(operator, show="archived") == [archived.pk]
    assert listed(operator, show="deleted") == [deleted.pk]
    assertNotContains(operator.get("/runs/", {"show": "deleted"}), f'href="/runs/{deleted.pk}/"')


def test_a_run_being_purged_is_never_shown(operator: Client) -> None:
    make_run(deleted_at=clock.now(), purging=True)
    assert listed(operator, show="deleted") == []


def test_it_says_so_when_nothing_matches(operator: Client) -> None:
    make_run()
    page = operator.get("/runs/", {"q": "nowhere"})
    assertContains(page, "No run matches")
    assertContains(page, 'id="show-all"')


def test_it_says_so_when_all_runs_are_archived_or_deleted(operator: Client) -> None:
    make_run(archived=True)
    page = operator.get("/runs/")
    assertContains(page, "The list is empty")
    assertNotContains(page, "No run matches")


def test_names_are_escaped(operator: Client) -> None:
    make_run(name="<script>alert(1)</script>")
    assertNotContains(operator.get("/runs/", {"q": "<script>"}), "<script>alert")


def link(page: Any, element: str) -> str | None:
    """The address that the link with this id leads to."""
    found = re.search(rf'<a [^>]*id="{element}"[^>]*>', page.content.decode())
    address = found and re.search(r'href="([^"]*)"', found[0])
    return unescape(address[1]) if address else None


ORDERS = ("name", "status", "trials_done", "trials_failed", "estimated_latency_s", "created_at")


@pytest.mark.parametrize("order", [*ORDERS, *(f"-{order}" for order in ORDERS)])
def test_it_pages_in_every_order_with_pinned_runs_first(operator: Client, order: str) -> None:
    for number in range(80):
        estimate = None if number % 3 == 0 else float(number % 7)
        status = Run.Status.values[number % 7]
        device = f"device-{number}"
        make_run(
            name=f"run {number % 10}",
            status=status,
            device=device,
            trials_done=number % 5,
            trials_failed=number % 4,
            estimated_latency_s=estimate,
            pinned=number % 30 == 0,
        )
    shown: list[int] = []
    url: str | None = f"/runs/?order={order}"
    for _ in range(3):
        assert url
        page = operator.get(url)
        shown += [run.pk for run, _ in page.context["rows"]]
        url = link(page, "page-next")
    assert url is None

    name, down = order.lstrip("-"), order.startswith("-")

    def place(run: Run) -> Any:
        return (not run.pinned, getattr(run, name) is None)

    runs = sorted(Run.objects.all(), key=lambda run: run.pk, reverse=down)
    runs.sort(key=lambda run: value if (value := getattr(run, name)) is not None else 0.0, reverse=down)
    assert shown == [run.pk for run in sorted(runs, key=place)]
    assert [run.pinned for run in Run.objects.filter(pk__in=shown[:3])] == [True] * 3


def test_a_page_keeps_its_filters_and_order(operator: Client) -> None:
    for number in range(40):
        make_run(name=f"wanted {number}")
    page = operator.get("/runs/", {"q": "wanted", "order": "name", "status": ["queued", "running"]})
    query = parse_qs(urlsplit(link(page, "page-next") or "").query)
    assert (query["q"], query["order"], query["status"]) == (["wanted"], ["name"], ["queued", "running"])
    assert len(listed(operator, **query)) == 10
    assertContains(page, '<th data-column="name" aria-sort="ascending">')
    assert parse_qs(urlsplit(link(page, "by-name") or "").query)["order"] == ["-name"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"cursor": "nonsense"}, "cursor"),
        ({"cursor": "WyItbmFtZSIsIngiLDFd"}, "cursor"),
        ({"order": "secret"}, "order"),
        ({"status": "sleeping"}, "status"),
        ({"show": "everything"}, "show"),
        ({"since": "yesterday"}, "since"),
        ({"until": "2026-02-30"}, "until"),
        ({"since": "2026-02-02", "until": "2026-02-01"}, "until"),
        ({"q": "a\0b"}, "q"),
        ({"q": "x" * 201}, "q"),
        ({"tag": "a\0b"}, "tag"),
        ({"network": "a\0b"}, "network"),
    ],
)
@pytest.mark.parametrize("headers", [{}, POLL])
def test_it_reports_invalid_parameters(operator: Client, query: Any, field: str, headers: Any) -> None:
    make_run()
    page = operator.get("/runs/", query, headers=headers)
    assert page.status_code == 422
    assert list(page.context["wrong"]) == [field]
    assertContains(page, 'data-role="wrong"', status_code=422)


def test_it_shows_how_many_runs_a_queued_one_waits_for(operator: Client) -> None:
    claimed(make_run())
    make_run(device="another")
    waiting = [make_run() for _ in range(2)]
    places = {run.pk: told.ahead for run, told in operator.get("/runs/").context["rows"]}
    assert [places[run.pk] for run in waiting] == [run.place for run in waiting] == [1, 2]


def test_it_polls_fast_only_while_any_run_is_ongoing(operator: Client) -> None:
    run = make_run()
    assertContains(operator.get("/runs/"), 'hx-trigger="every 2s"')
    assertContains(operator.get("/runs/", {"q": "nowhere"}), 'hx-trigger="every 2s"')
    run.move(Run.Status.QUEUED, to=Run.Status.STOPPED)
    assertContains(operator.get("/runs/"), 'hx-trigger="every 30s"')


def test_a_long_queue_is_asked_for_less_often(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MANY", 1)
    make_run()
    assertContains(operator.get("/runs/"), 'hx-trigger="every 2s"')
    make_run()
    assertContains(operator.get("/runs/"), 'hx-trigger="every 10s"')


def test_it_names_machines_if_the_runs_were_tuned_on_several(operator: Client) -> None:
    on(make_machine("lab-1"))
    assertNotContains(operator.get("/runs/"), "lab-1")
    on(make_machine("lab-2"))
    page = operator.get("/runs/")
    assertContains(page, "· lab-1")
    assertContains(page, "· lab-2")


def finished(estimate_s: float | None, **values: Any) -> Run:
    found = {"tasks_total": 2, "tasks_chosen": 2, "tasks_measured": 2, **values}
    return make_run(status="finished", estimated_latency_s=estimate_s, **found)


def told(client: Client) -> dict[int, Any]:
    return {run.pk: row for run, row in client.get("/runs/").context["rows"]}


def test_it_shows_the_duration_and_the_latest_measured_latency(operator: Client) -> None:
    run, other = finished(7e-3, elapsed_s=75.0), finished(None)
    first, second = make_compilation(run), make_compilation(run, verified=None)
    Benchmark.objects.create(compilation=second, rounds={"tuned": [5e-3, 6e-3, 7e-3]})
    assert {key: row.measured_s for key, row in told(operator).items()} == {run.pk: 6e-3, other.pk: None}
    assertContains(operator.get("/runs/"), "1\u00a0min 15\u00a0s")
    Benchmark.objects.create(compilation=first, rounds={"tuned": [9e-3]})
    assert told(operator)[run.pk].measured_s == 9e-3


def test_it_marks_the_fastest_run_of_a_network(operator: Client) -> None:
    slow, fast = finished(7e-3), finished(5e-3)
    alone = finished(1e-3, network=make_network("alone"))
    part = finished(1e-3, tasks_chosen=1)
    unreal = finished(1e-3, synthetic=True)
    marked = {key for key, row in told(operator).items() if row.fastest}
    assert marked == {fast.pk}
    assert {slow.pk, alone.pk, part.pk, unreal.pk} < told(operator).keys()
    assertContains(operator.get("/runs/"), 'data-role="fastest"', count=1)


def test_runs_of_projects_that_one_does_not_see_are_never_the_fastest(client: Client) -> None:
    seen, more = finished(7e-3), finished(8e-3)
    finished(1e-3, project=Project.objects.create(name="veiled"))
    client.force_login(make_user("viewer"))
    shown = told(client)
    assert [key for key in (seen.pk, more.pk) if key in shown and shown[key].fastest] == [seen.pk]


def test_it_gives_htmx_the_list_alone(operator: Client) -> None:
    make_run()
    page = operator.get("/runs/?order=name&q=mlp", headers=POLL)
    assertNotContains(page, "<html")
    assertContains(page, 'hx-get="/runs/?order=name&amp;q=mlp"')


def test_the_number_of_queries_does_not_depend_on_the_runs(
    operator: Client, django_assert_max_num_queries: Any
) -> None:
    def add(numbers: Iterable[int]) -> None:
        for number in numbers:
            run = make_run(
                name=f"run {number}", created_by=make_user("viewer", f"user{number}"), pinned=number % 20 == 2
            )
            change_tags(run, ["some", f"tag-{number}"])

    def queries() -> int:
        with CaptureQueriesContext(connection) as asked:
            operator.get("/runs/")
        return len(asked)

    add(range(2, 5))  # One of them is pinned.
    few = queries()
    add(range(5, 42))
    assert queries() == few
    # Session, user, permissions (2), roles, number of projects, pinned runs, other runs, counts, ongoing runs, whether there is any run.
    with django_assert_max_num_queries(11):
        operator.get("/runs/", {"status": "stopped"}, headers=POLL)
    # … full rows (2), tags (2), places (4), measured latencies; not whether there is any run.
    with django_assert_max_num_queries(19):
        operator.get("/runs/", headers=POLL)
    with django_assert_max_num_queries(24):  # … the user's groups, projects, networks, targets, tags
        operator.get("/runs/")


@pytest.mark.parametrize(("reason", "shown"), [("time_limit", True), ("plateau", True), ("budget", False)])
def test_it_says_which_runs_ended_early(client: Client, reason: str, shown: bool) -> None:
    client.force_login(make_user("viewer"))
    make_run(status="finished", finish_reason=reason)
    page = client.get("/runs/").content.decode()
    assert ("time limit reached" in page or "plateau reached" in page) is shown


def test_it_offers_only_filters_that_match_runs(operator: Client) -> None:
    gone = make_run(network=make_network("own"), deleted_at=clock.now() - timedelta(days=1))
    gone.tags.create(name="gone")
    change_tags(make_run(), ["kept"])
    make_network("unused")
    page = operator.get("/runs/")
    assert (page.context["networks"], page.context["tags"]) == (["mlp"], ["kept"])
    assert [target for _, target in page.context["targets"]] == [make_run().target]
