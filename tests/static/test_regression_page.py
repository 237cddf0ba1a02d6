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
print(check.pk)
"""
ANOTHER = """
from tests.world import *
check = RegressionCheck.objects.get(pk={key})
make_result(check, None, verdict="failed", error="lld: undefined symbol")
RegressionCheck.objects.filter(pk=check.pk).update(state="failed")
"""


def test_it_draws_the_history_and_follows_a_result(live_site: LiveSite, signed_in: Page) -> None:
    page = signed_in
    key = live_site.manage("shell", "-v", "0", "--no-imports", "-c", SEED).strip()
    page.goto(f"{live_site.url}/regressions/{key}/")
    expect(page.locator("[data-role=state]")).to_have_text("regression")
    points = page.locator("[data-role=chart-history] .points path")
    expect(points).to_have_count(2)
    expect(page.locator("[data-role=badge]")).to_have_js_property("naturalHeight", 20)
    live_site.manage("shell", "-v", "0", "--no-imports", "-c", ANOTHER.format(key=key))
    rows = page.locator("[data-role=results] tbody tr")
    expect(rows).to_have_count(3, timeout=LONG_MS)
    expect(rows.first).to_have_attribute("data-verdict", "failed")
    expect(page.locator("[data-role=state]")).to_have_text("failing")
    expect(points).to_have_count(3)
    page.locator("[data-role=delete-check]").click()
    page.locator("[data-role=delete-confirm]").click()
    expect(page).to_have_url(f"{live_site.url}/regressions/")
