"""In a browser, on a whole site with a real older TVM: AutoTVM is chosen, launched, watched, and its record opened."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.live import LiveSite

pytestmark = [pytest.mark.browser, pytest.mark.tvm]
LONG_MS = 120_000


@pytest.fixture
def site(new_site: LiveSite, legacy_python: str) -> LiveSite:
    new_site.env["TUNEBOARD_LEGACY_PYTHON"] = f"tvm0.9={legacy_python}"
    new_site.start()
    return new_site


def role(page: Page, name: str) -> Any:
    return page.locator(f"[data-role={name}]")


@pytest.mark.rare
def test_autotvm_is_launched_and_watched(site: LiveSite, page: Page) -> None:
    page.context.add_cookies(site.cookies)
    page.goto(f"{site.url}/machines/")
    known = page.locator("[data-interpreter='tvm0.9']")
    expect(known).to_contain_text("auto_scheduler", timeout=LONG_MS)
    expect(known).to_contain_text("gridsearch")

    page.goto(f"{site.url}/runs/new/")
    page.get_by_role("link", name="AutoTVM").click()
    expect(page.locator("select[name=interpreter]")).to_have_value("tvm0.9")
    page.locator("select[name=tuner]").select_option("random")
    page.locator("input[name=trials]").fill("12")
    role(page, "launch-submit").click()

    expect(page).to_have_url(re.compile(r"/runs/\d+/$"), timeout=LONG_MS)
    expect(page.locator("main")).to_contain_text("finished: trial budget used up", timeout=LONG_MS)
    page.goto(f"{page.url}tasks/0/")
    page.locator("[data-role=records-table] .row-link").first.click()
    expect(role(page, "raw-record")).to_contain_text("dense_nopack.x86")
