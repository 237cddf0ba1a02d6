"""The head of a run's page: what one comes for in the run's state, and a menu with the rest."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.live import LiveSite

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("without_charts")]
LONG_MS = 60_000
SEED = """
from tests.heartbeats import keep_alive
from tests.world import measured_run
from tuning.models import Run
Run.objects.filter(device="of the head").update(status="stopped")
run = measured_run(device="of the head", trials_budget=3)
keep_alive(run)
print(run.pk)
"""
END = """
from tuning.notify.announce import announce_status
from tuning.models import Run
Run.objects.filter(pk={key}).update(status="finished")
announce_status(Run.objects.get(pk={key}))
"""


def shell(site: LiveSite, code: str, **values: Any) -> str:
    return site.manage("shell", "-v", "0", "--no-imports", "-c", code.format(**values)).strip()


def role(page: Page, name: str) -> Locator:
    return page.locator(f"[data-role={name}]")


def names(page: Page, within: str) -> list[str]:
    """What stands on the buttons that are shown there."""
    buttons = page.locator(f"{within} .button:visible")
    return [text.strip() for text in buttons.all_inner_texts()]


def test_the_head_has_what_one_comes_for_and_a_menu_has_the_rest(live_site: LiveSite, signed_in: Page) -> None:
    page, key = signed_in, shell(live_site, SEED)
    page.goto(f"{live_site.url}/runs/{key}/")
    expect(role(page, "status")).to_have_text("running")
    expect(role(page, "notify")).to_be_visible()
    assert names(page, ".page-head .actions")[1:] == ["Stop", "Download", "More"]
    role(page, "more").locator("summary").click()
    assert names(page, "[data-role=more] .menu-panel") == ["Compile", "Compare", "Extend", "Launch again"]
    shell(live_site, END, key=key)
    expect(role(page, "status")).to_have_text("finished", timeout=LONG_MS)
    expect(role(page, "continue")).to_be_visible()
    expect(page.locator("#compile [data-role=compile]")).to_be_visible()
    assert names(page, "[data-role=more] .menu-panel") == ["Compare", "Extend", "Launch again", "Continue with…"]
    page.keyboard.press("Escape")
    assert names(page, ".page-head .actions") == ["Compile", "Download", "More"]


def test_the_menu_works_with_keys_alone(live_site: LiveSite, signed_in: Page) -> None:
    page, key = signed_in, shell(live_site, SEED)
    shell(live_site, END, key=key)
    page.goto(f"{live_site.url}/runs/{key}/")
    more, extend = role(page, "more").locator("summary"), role(page, "extend")
    expect(more).to_have_accessible_name("More actions")
    more.focus()
    page.keyboard.press("Enter")
    expect(extend).to_be_visible()
    page.keyboard.press("Escape")
    expect(extend).to_be_hidden()
    expect(more).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(extend).to_be_focused()
    page.keyboard.press("Enter")
    expect(role(page, "extend-dialog")).to_be_visible()
    expect(extend).to_be_hidden()
    page.keyboard.press("Escape")
    expect(role(page, "extend-dialog")).to_be_hidden()
    expect(more).to_be_focused()


def test_what_would_be_built_untuned_is_told_wherever_the_button_is(live_site: LiveSite, signed_in: Page) -> None:
    page, key = signed_in, shell(live_site, SEED)
    page.goto(f"{live_site.url}/runs/{key}/")
    expect(role(page, "status")).to_have_text("running")
    for _ in ("in the menu", "in the head"):
        with page.expect_response("**/untuned/*"):
            page.keyboard.press("b")
        expect(role(page, "compile-dialog")).to_be_visible()
        role(page, "compile-cancel").click()
        shell(live_site, END, key=key)
        expect(page.locator("#compile [data-role=compile]")).to_be_visible(timeout=LONG_MS)
