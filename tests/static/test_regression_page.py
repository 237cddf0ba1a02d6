"""The page of a regression check draws its history and follows what goes on."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.live import LiveSite

pytestmark = pytest.mark.browser
LONG_MS = 60_000
SEED = """
from tests.world import *
check = make_check(name="mlp in a browser", state="regression")
make_result(check, 10e-3)
make_result(check, 12e-3, verdict="regression", base_s=10e-3, change=0.2, noise=0.02)
library = make_compilation(check.like, status="running", stage="build", verified=None, sha256=None)
going = make_result(check, None, verdict="", ended_at=None, compilation=library)
make_result(check, None, verdict="skipped", error="It still went on.")
print(check.pk, going.pk, library.pk)
"""
END = """
from tuning.models import Compilation
Compilation.objects.filter(pk={key}).update(status="failed", error="lld: undefined symbol")
"""


def test_its_form_shows_what_applies_to_what_is_chosen(live_site: LiveSite, signed_in: Page) -> None:
    page = signed_in
    page.goto(f"{live_site.url}/regressions/new/")
    weekday, trials, limit = (page.locator(f"[name={name}]") for name in ("weekday", "trials", "time_limit_s"))
    for field in (weekday, trials, limit):
        expect(field).to_be_hidden()
    page.locator("[name=every]").select_option("week")
    expect(weekday).to_be_visible()
    expect(trials).to_be_hidden()
    page.locator("[name=how]").select_option("tune")
    expect(trials).to_be_visible()
    expect(limit).to_be_visible()
    page.locator("[name=every]").select_option("day")
    expect(weekday).to_be_hidden()


def test_it_draws_the_history_and_follows_a_result(live_site: LiveSite, signed_in: Page) -> None:
    """The result that goes on isn't the newest one: another one was due meanwhile. The site's sweep ends it."""
    page = signed_in
    key, going, library = live_site.manage("shell", "-v", "0", "--no-imports", "-c", SEED).split()
    page.goto(f"{live_site.url}/regressions/{key}/")
    expect(page.locator("[data-role=state]")).to_have_text("regression")
    points = page.locator("[data-role=chart-history] .points path")
    expect(points).to_have_count(2)
    expect(page.locator("[data-role=badge]")).to_have_js_property("naturalHeight", 20)
    expect(page.locator("[data-role=results] tbody tr").first).to_have_attribute("data-verdict", "skipped")
    row = page.locator(f"[data-result='{going}']")
    expect(row).to_have_attribute("data-verdict", "")
    live_site.manage("shell", "-v", "0", "--no-imports", "-c", END.format(key=library))
    expect(row).to_have_attribute("data-verdict", "failed", timeout=LONG_MS)
    expect(row).to_contain_text("lld: undefined symbol")
    expect(page.locator("[data-role=state]")).to_have_text("failing")
    expect(points).to_have_count(3)
    page.locator("[data-role=delete-check]").click()
    page.locator("[data-role=delete-confirm]").click()
    expect(page).to_have_url(f"{live_site.url}/regressions/")
