"""The metrics page, for admins: the figures that are kept over time, and present values."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django.asserts import assertContains, assertNotContains

from tests.world import claimed, make_extraction, make_network, make_run, make_tasks, make_user, record_trials
from tuning.actions import sweeping
from tuning.models import Tally
from tuning.wording import SPACE

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(client: Client) -> Client:
    client.force_login(make_user("admin"))
    return client


def figures(client: Client) -> dict[str, Any]:
    answer = client.get("/admin/metrics/figures/")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def earlier(ago: timedelta, device: str = "cpu", **amounts: float) -> None:
    """Counts of the minute that began so long ago."""
    began = (timezone.now() - ago).replace(second=0, microsecond=0)
    for what, amount in amounts.items():
        Tally.objects.create(minute=began, device=device, what=what.replace("__", ":"), amount=amount)


def test_nothing_is_drawn_before_anything_was_counted(admin: Client) -> None:
    assert {name: figure["data"] for name, figure in figures(admin).items()} == {
        "runs": [],
        "trials": [],
        "failed": [],
        "use": [],
    }
    page = admin.get("/admin/metrics/")
    assertContains(page, "not recorded: no trial yet")
    assertContains(page, "never done: start")


def test_it_draws_trials_and_failures_of_each_minute(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    now = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: now)  # The minute would be over before the page is asked for.
    run = claimed(make_run())
    make_tasks(run)
    record_trials(run, [(0, 1e-3), (1, None)])
    earlier(timedelta(minutes=90), trials=7.0)
    earlier(timedelta(minutes=90), "cuda:0", trials=2.0, failed__build=1.0)
    earlier(timedelta(hours=26), trials=500.0)
    found = figures(admin)
    cpu, cuda = found["trials"]["data"]
    assert (cpu["name"], cuda["name"]) == ("cpu", "cuda:0")
    assert (sum(cpu["y"]), sum(cuda["y"])) == (7, 2), "this minute isn't over, and yesterday isn't shown"
    assert len(cpu["x"]) == len(cpu["y"]) == len(cuda["y"])
    at = next(time for time, count in zip(cpu["x"], cpu["y"], strict=True) if count)
    assert at == (timezone.now() - timedelta(minutes=90)).replace(second=0, microsecond=0).isoformat()
    assert {trace["name"]: sum(trace["y"]) for trace in found["failed"]["data"]} == {"build failed": 1, "run failed": 1}
    assert all(len(trace["x"]) == len(trace["y"]) for trace in found["failed"]["data"])


def test_device_use_is_a_share_of_the_time(admin: Client) -> None:
    earlier(timedelta(minutes=120), tuned_s=60.0)
    earlier(timedelta(minutes=240), tuned_s=6000.0)
    (cpu,) = figures(admin)["use"]["data"]
    assert sorted(share for share in cpu["y"] if share) == [pytest.approx(0.1), 1.0], (
        "a minute in ten, and never more than all"
    )


def test_it_draws_a_whole_day_at_most(admin: Client) -> None:
    earlier(timedelta(hours=23), trials=1.0)
    (cpu,) = figures(admin)["trials"]["data"]
    assert 23 * 60 <= len(cpu["x"]) <= 24 * 60 + 10


def test_it_shows_devices_queues_and_since_when_it_counts(admin: Client) -> None:
    run = claimed(make_run())
    make_tasks(run)
    record_trials(run, [(0, 1e-3), (1, None)])
    make_run(queued_at=timezone.now() - timedelta(minutes=5))
    sweeping.sweep()
    part = admin.get("/admin/metrics/", headers={"HX-Request": "true"})
    assertNotContains(part, "<html")
    assertContains(part, "since the web process started at")
    assertContains(part, f"5{SPACE}min ago")
    assertContains(part, '<span class="chip" data-status="running">busy</span>', html=True)
    assertContains(part, "last done")
    (bars,) = figures(admin)["runs"]["data"]
    assert dict(zip(bars["x"], bars["y"], strict=True))["running"] == 1


def test_an_extractions_age_is_not_recorded(admin: Client) -> None:
    make_extraction(make_network(), status="queued")
    assertContains(admin.get("/admin/metrics/"), "not recorded</span>")


def test_it_says_who_needs_no_token(admin: Client, settings: Any) -> None:
    assertContains(admin.get("/admin/metrics/"), "It has to send")
    settings.METRICS_FROM = ["10.0.0.0/24"]
    assertContains(admin.get("/admin/metrics/"), "10.0.0.0/24")


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_it_is_for_admins_only(client: Client, role: str) -> None:
    client.force_login(make_user(role))
    assert client.get("/admin/metrics/").status_code == 403
    assert client.get("/admin/metrics/figures/").status_code == 403
    assertNotContains(client.get("/runs/"), "/admin/metrics/")
