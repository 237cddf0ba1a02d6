"""A live page says why it no longer updates, once its session has ended."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.live import LiveSite

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("without_charts")]
PREPARE = """
import json
from dashboard.accounts import one_time_login_url
from dashboard.people import managing
from tests.heartbeats import keep_alive
from tests.world import *
run = measured_run(device="elsewhere")
keep_alive(run)
user = managing.invite({name!r}, "operator")
print(json.dumps([run.pk, one_time_login_url(user, {base!r})]))
"""
LEAVE = """
from django.contrib.auth.models import User
from dashboard.people import managing
managing.deactivate(User.objects.get(username={name!r}))
"""

REMOVE = """
from django.contrib.auth.models import User
from tuning.actions import members
members.remove(User.objects.get(username={name!r}).memberships.get())
"""


@pytest.fixture
def watching(live_site: LiveSite, page: Page, request: pytest.FixtureRequest) -> Iterator[tuple[Page, str]]:
    """A page that watches a run, signed in by a link, and its user's name; the run is deleted at the end."""
    name = re.sub(r"\W", "-", request.node.name)[:100]
    code = PREPARE.format(name=name, base=live_site.url)
    run, link = json.loads(live_site.manage("shell", "-v", "0", "--no-imports", "-c", code))
    page.goto(link)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/runs/")
    page.goto(f"{live_site.url}/runs/{run}/")
    expect(page.locator("[data-role=connection]")).to_be_hidden()
    page.wait_for_load_state("networkidle")
    yield page, name
    end = f"from tuning.models import Run; Run.everything.filter(pk={run}).delete()"
    live_site.manage("shell", "-v", "0", "--no-imports", "-c", end)


@pytest.mark.rare
def test_it_says_that_the_account_was_deactivated(live_site: LiveSite, watching: tuple[Page, str]) -> None:
    page, name = watching
    other = page.context.new_page()
    other.goto(f"{live_site.url}/account/")
    live_site.manage("shell", "-v", "0", "--no-imports", "-c", LEAVE.format(name=name))
    said = page.get_by_role("alert").filter(has_text="Your account was deactivated: this page no longer updates.")
    expect(said).to_be_visible(timeout=20_000)
    expect(page.locator("[data-role=connection]")).to_be_hidden()
    other.reload()
    assert "/sign-in/" in other.url
    page.evaluate("dispatchEvent(new Event('online'))")
    page.wait_for_load_state("networkidle")
    expect(said).to_be_visible()
    assert "/runs/" in page.url, "nothing has reloaded it"


def test_it_says_that_the_user_left_the_project(live_site: LiveSite, watching: tuple[Page, str]) -> None:
    page, name = watching
    live_site.manage("shell", "-v", "0", "--no-imports", "-c", REMOVE.format(name=name))
    said = page.get_by_role("alert").filter(has_text="you are no longer a member of its project")
    expect(said).to_be_visible(timeout=20_000)
    expect(page.locator("[data-role=connection]")).to_be_hidden()


def test_it_says_that_you_signed_out_everywhere(live_site: LiveSite, watching: tuple[Page, str]) -> None:
    page, _name = watching
    other = page.context.new_page()
    other.goto(f"{live_site.url}/account/")
    other.locator("[data-role=sign-out-everywhere]").click()
    expect(other.get_by_text("You are signed out everywhere.")).to_be_visible()
    said = page.get_by_role("alert").filter(has_text="You were signed out: this page no longer updates.")
    expect(said).to_be_visible(timeout=20_000)
    # What the page still asks for ends there, and is no script error.
    with page.expect_response(re.compile("/sign-in/")):
        page.evaluate("document.querySelector('[data-role=predicted]').open = true")


def test_it_goes_on_after_a_new_password(live_site: LiveSite, watching: tuple[Page, str]) -> None:
    page, _name = watching
    context: BrowserContext = page.context
    other = context.new_page()
    other.goto(f"{live_site.url}/account/")
    other.get_by_label("New password", exact=True).fill("tensor intrinsics 9")
    other.get_by_label("New password confirmation").fill("tensor intrinsics 9")
    with page.expect_websocket():
        other.get_by_role("button", name="Set password").click()
    expect(page.locator("[data-role=connection]")).to_be_hidden(timeout=20_000)
    expect(page.locator("[data-role=ended]")).to_have_count(0)
