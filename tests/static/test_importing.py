"""Importing logs in a browser: files are dropped, sent, read, and become runs."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.live import LiveSite
from tests.tuning.work.test_importing import ansor

pytestmark = pytest.mark.browser
LONG_MS = 60_000
DROP = """([files]) => {
    const data = new DataTransfer();
    for (const [name, text] of files) data.items.add(new File([Uint8Array.from(atob(text), (one) => one.charCodeAt(0))], name));
    const area = document.querySelector("[data-role=drop]");
    area.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
}"""


def role(page: Page, name: str) -> Any:
    return page.locator(f"[data-role={name}]")


def drop(page: Page, **files: str) -> None:
    packed = [
        [name.replace("_json", ".json"), base64.b64encode(text.encode()).decode()] for name, text in files.items()
    ]
    page.evaluate(DROP, [packed])


def test_a_dropped_log_becomes_a_run_whose_page_shows_what_is_known(live_site: LiveSite, signed_in: Page) -> None:
    page = signed_in
    page.goto(f"{live_site.url}/runs/")
    role(page, "import-logs").click()
    page.get_by_role("button", name="Import").click()
    expect(page.get_by_text("Choose at least one file.")).to_be_visible()
    lines = [*(ansor(1e-3 * (9 - number)) for number in range(8)), '{"i": [', ansor(None)]
    drop(page, dropped_json="\n".join(lines) + "\n")
    expect(role(page, "chosen-files")).to_contain_text("dropped.json")
    page.get_by_label("Weights").fill("{")
    page.get_by_role("button", name="Import").click()
    expect(page.locator('[data-field="weights"]')).to_contain_text("Must be a JSON object")
    page.get_by_label("Weights").fill("")
    page.get_by_role("button", name="Import").click()
    expect(role(page, "status")).to_have_text("finished", timeout=LONG_MS)
    expect(role(page, "bad-lines")).to_contain_text("dropped.json")
    page.get_by_role("link", name="dropped", exact=True).click()
    expect(role(page, "trials-done")).to_have_text("9", timeout=LONG_MS)
    expect(role(page, "origin")).to_have_text("imported")
    expect(page.locator("[data-role=chart-latency] .scatterlayer .trace")).to_have_count(1, timeout=LONG_MS)
    expect(role(page, "empty-estimate")).to_contain_text("weights of its tasks aren’t recorded")
    expect(role(page, "extend")).to_be_hidden()
    expect(role(page, "errors-list")).to_contain_text("build failed")
