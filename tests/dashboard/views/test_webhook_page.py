"""The webhooks page, for admins: deliveries, and sending them again."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from pytest_django.asserts import assertContains, assertNotContains, assertRedirects

from tests.world import make_run, make_user
from tuning.actions import runs
from tuning.models import Delivery
from tuning.queue import jobs

pytestmark = pytest.mark.django_db
ADDRESS = "https://chat.example/hooks/secret"


@pytest.fixture(autouse=True)
def enqueued(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Ids of enqueued deliveries."""
    keys: list[int] = []
    monkeypatch.setattr(jobs, "enqueue", lambda delivery: keys.append(delivery.pk))
    return keys


@pytest.fixture
def admin(client: Client) -> Client:
    client.force_login(make_user("admin"))
    return client


def test_it_shows_the_state_of_each_delivery(admin: Client, settings: Any) -> None:
    settings.WEBHOOKS = [ADDRESS]
    run = make_run()
    runs.stop(run)
    delivery = Delivery.objects.get()
    delivery.claim()
    delivery.failed("It answered 500 Internal Server Error")
    page = admin.get("/webhooks/")
    assertContains(page, ADDRESS)
    assertContains(page, f'<a href="/runs/{run.pk}/">run.stopped {run.pk}</a>', html=True)
    assertContains(page, "It answered 500 Internal Server Error")
    assertContains(page, "next try")
    assertNotContains(page, "Send again")
    part = admin.get("/webhooks/", headers={"HX-Request": "true"})
    assertContains(part, 'id="deliveries"')
    assertNotContains(part, "<html")


def test_a_failed_delivery_can_be_sent_again(admin: Client, settings: Any, enqueued: list[int]) -> None:
    settings.WEBHOOKS = [ADDRESS]
    runs.stop(make_run())
    delivery = Delivery.objects.get()
    delivery.claim()
    delivery.give_up("It can't be reached")
    assertContains(admin.get("/webhooks/"), "Send again")
    assertRedirects(admin.post(f"/webhooks/{delivery.pk}/again/"), "/webhooks/")
    delivery.refresh_from_db()
    assert (delivery.status, delivery.attempts) == ("waiting", 0)
    assert enqueued == [delivery.pk]
    assertContains(admin.post(f"/webhooks/{delivery.pk}/again/", follow=True), "already being sent")
    assert enqueued == [delivery.pk]


def test_it_sends_a_test(admin: Client, settings: Any, enqueued: list[int]) -> None:
    settings.WEBHOOKS = [ADDRESS, "https://other.example/"]
    assertContains(admin.post("/webhooks/test/", follow=True), "on its way")
    assert sorted(enqueued) == sorted(Delivery.objects.filter(kind="test").values_list("pk", flat=True))
    assert len(enqueued) == 2


def test_it_says_how_to_configure_an_address(admin: Client) -> None:
    page = admin.get("/webhooks/")
    assertContains(page, "TUNEBOARD_WEBHOOKS=")
    assertNotContains(page, "Send a test")
    assertContains(admin.post("/webhooks/test/", follow=True), "There is no address")


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_it_shows_addresses_to_admins_only(client: Client, settings: Any, role: str) -> None:
    settings.WEBHOOKS = [ADDRESS]
    runs.stop(make_run())
    client.force_login(make_user(role))
    assert client.get("/webhooks/").status_code == 403
    assertNotContains(client.get("/runs/"), "Webhooks")
