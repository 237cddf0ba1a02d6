"""Times on pages: relative or absolute as the user prefers, and kept up to date."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from dashboard.templatetags.tuneboard import ago, moment
from tests.live import LiveSite

BRIEF = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d$")


def test_an_age_has_its_exact_time_as_title() -> None:
    time = datetime.now(timezone.utc) - timedelta(minutes=3, seconds=5)
    html = f'<time datetime="{time.isoformat()}" title="{time:%Y-%m-%d %H:%M:%S} UTC">3\u00a0min ago</time>'
    assert ago(time) == ago(time.isoformat()) == f"<local-time>{html}</local-time>"


def test_an_exact_time_has_seconds() -> None:
    time = datetime(2026, 11, 21, 13, 3, 12, tzinfo=timezone.utc)
    html = '<time datetime="2026-11-21T13:03:12+00:00">2026-11-21 13:03:12 UTC</time>'
    assert moment(time) == f"<local-time exact>{html}</local-time>"


@pytest.mark.parametrize("show", [ago, moment])
def test_a_missing_time_is_not_invented(show: Any) -> None:
    assert show(None) == "–"


@pytest.fixture
def shown(live_site: LiveSite, signed_in: Page) -> Any:
    """The time of a network that was just uploaded, on a page whose clock the test controls."""
    name = f"of-the-times-{datetime.now(timezone.utc):%H%M%S%f}"
    live_site.manage("shell", "-v", "0", "--no-imports", "-c", f"from tests.world import *; make_network({name!r})")
    signed_in.clock.install(time=datetime.now(timezone.utc))
    signed_in.goto(f"{live_site.url}/networks/")
    return signed_in.get_by_role("row", name=name).locator("local-time [part=time]")


@pytest.mark.browser
def test_ages_are_updated_over_time_and_after_sleep(signed_in: Page, shown: Any) -> None:
    expect(shown).to_have_text("just now")
    signed_in.clock.run_for(65_000)
    expect(shown).to_have_text("1 min ago")
    # As after the machine slept: time has passed, and each timer fires at most once.
    signed_in.clock.fast_forward("05:00:00")
    expect(shown).to_have_text("5 h ago")
    expect(shown).to_have_attribute("datetime", re.compile(r"^\d{4}-\d\d-\d\dT"))
    expect(shown).to_have_attribute("title", re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+"))


@pytest.mark.browser
def test_a_user_can_have_absolute_times_everywhere(live_site: LiveSite, signed_in: Page, shown: Any) -> None:
    signed_in.keyboard.press("a")
    expect(shown).to_have_text(BRIEF)
    expect(shown).to_have_attribute("title", re.compile(r"\d\d:\d\d:\d\d \S+, just now$"))
    signed_in.reload()
    expect(shown).to_have_text(BRIEF)
    signed_in.locator("[data-role=display]").click()
    signed_in.get_by_role("button", name="Relative").click()
    expect(shown).to_have_text(re.compile("ago|just now"))


@pytest.mark.browser
def test_times_are_in_the_browsers_zone(live_site: LiveSite, browser: Any) -> None:
    context = browser.new_context(timezone_id="Asia/Tokyo")
    page = context.new_page()
    context.add_cookies(live_site.cookies)
    page.goto(f"{live_site.url}/runs/")
    page.evaluate(
        """() => { const one = document.createElement("local-time");
        one.setAttribute("exact", "");
        one.innerHTML = '<time datetime="2026-11-21T13:03:12+00:00">2026-11-21 13:03:12 UTC</time>';
        document.querySelector("main").replaceChildren(one); }"""
    )
    expect(page.locator("main")).to_have_text(re.compile(r"2026-11-21 22:03:12 \S+"))
    context.close()
