"""Comparing a run with other runs of its network from its page."""

from __future__ import annotations

import json
import re

import pytest
from django.test import Client
from playwright.sync_api import Page, expect

from dashboard.views.runs import page
from tests.live import LiveSite
from tests.world import make_network, make_run, make_user
from tuning.models import Network, Run

SEED = """
import json
from tests.world import make_network, make_run
network = make_network("beside-in-a-browser")
print(json.dumps([make_run(network=network, status="finished", name=f"beside {n}").pk for n in range(9)]))
"""


@pytest.fixture
def viewer(client: Client) -> Client:
    client.force_login(make_user("viewer"))
    return client


def offered(client: Client, run: Run) -> list[int]:
    page = client.get(f"/runs/{run.pk}/").content.decode()
    return [int(key) for key in re.findall(r'type="checkbox" name="runs" value="(\d+)"', page)]


@pytest.mark.django_db
def test_it_offers_the_latest_runs_of_the_network_whatever_its_options(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "COMPARABLE", 2)
    wider = Network.objects.create(name="mlp", fingerprint="wider", options={"batch": 8})
    run, *others = make_run(), make_run(), make_run(network=wider), make_run()
    make_run(network=make_network("another"))
    assert offered(viewer, run) == [others[2].pk, others[1].pk]


@pytest.mark.django_db
def test_it_says_when_there_is_no_other_run(viewer: Client) -> None:
    run = make_run()
    assert offered(viewer, run) == []
    assert "There is no other run of mlp yet." in viewer.get(f"/runs/{run.pk}/").content.decode()


@pytest.mark.browser
def test_selecting_two_runs_compares_three(live_site: LiveSite, signed_in: Page) -> None:
    page = signed_in
    keys: list[int] = json.loads(live_site.manage("shell", "-v", "0", "--no-imports", "-c", SEED))
    page.goto(f"{live_site.url}/runs/{keys[0]}/")
    page.locator("[data-role=more] > summary").click()
    page.locator("[data-role=compare]").click()
    confirm, boxes = (
        page.locator("[data-role=compare-confirm]"),
        page.locator("[data-role=compare-form] [type=checkbox]"),
    )
    expect(confirm).to_be_disabled()
    for box in boxes.all():
        box.check()
    expect(confirm).to_be_disabled()
    for box in boxes.all()[2:]:
        box.uncheck()
    expect(confirm).to_have_text("Compare 3 runs")
    confirm.click()
    page.wait_for_url(re.compile(rf"/compare/\?runs={keys[0]},{keys[8]},{keys[7]}$"))
