"""The launch form's target and warnings, and extending a run, in a browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.live import LiveSite
from tests.static.test_watching import LONG_MS, launch, role, wait_for_status

pytestmark = [pytest.mark.browser, pytest.mark.tvm]


@pytest.mark.rare
def test_a_target_can_be_chosen_and_is_warned_about(live_site: LiveSite, signed_in: Page) -> None:
    page = signed_in
    page.goto(f"{live_site.url}/runs/new/")
    expect(page.locator("#id_target")).to_have_value("this")
    expect(page.get_by_role("button", name="This machine")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="A tag").click()
    page.locator("#id_target").fill("llvm")
    page.locator("#id_target").blur()
    warning = page.locator("[data-role=warning][data-field=target]")
    expect(warning).to_contain_text("doesn't use features of this machine's CPU", timeout=LONG_MS)
    page.wait_for_function("() => document.querySelectorAll('#target-tags option').length > 100", timeout=LONG_MS)
    page.get_by_role("button", name="JSON").click()
    expect(page.locator("#id_target")).to_have_value("")
    page.get_by_role("button", name="This machine").click()
    expect(page.locator("#id_target")).to_have_value("this")
    expect(warning).to_have_count(0, timeout=LONG_MS)
    expect(role(page, "target-label")).to_contain_text("Tunes for", timeout=LONG_MS)


@pytest.mark.rare
def test_a_finished_run_is_extended_from_its_page(live_site: LiveSite, signed_in: Page) -> None:
    page = signed_in
    launch(page, live_site, **{"Trials": "2", "Trials per batch": "2", "Seed": "1"})
    wait_for_status(page, "finished")
    expect(role(page, "phase")).to_have_text("finished: trial budget used up")
    page.locator("[data-role=more] > summary").click()
    role(page, "extend").click()
    page.locator("#id_trials").fill("2")
    role(page, "extend-confirm").click()
    expect(role(page, "trials-budget")).to_have_text("4")
    expect(role(page, "trials-done")).to_have_text("4", timeout=LONG_MS)
    wait_for_status(page, "finished")
