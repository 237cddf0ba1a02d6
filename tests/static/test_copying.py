"""Copy buttons for texts, snippets and addresses, with and without the clipboard API."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Page, expect

from tests.live import LiveSite
from tests.world import record_text

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("without_charts")]
SEED = """
import json
from tests.world import make_run, measured_run
from tuning.models import Run
Run.objects.filter(device="copied").update(status="stopped")
print(json.dumps([measured_run(device="copied").pk, make_run(status="failed").pk]))
"""


@pytest.fixture
def runs(live_site: LiveSite, signed_in: Page) -> list[int]:
    keys: list[int] = json.loads(live_site.manage("shell", "-v", "0", "--no-imports", "-c", SEED))
    signed_in.context.grant_permissions(["clipboard-read", "clipboard-write"])
    return keys


def clipboard(page: Page) -> str:
    text: str = page.evaluate("navigator.clipboard.readText()")
    return text


def test_a_copy_button_copies_its_text(live_site: LiveSite, signed_in: Page, runs: list[int]) -> None:
    page = signed_in
    page.goto(f"{live_site.url}/runs/{runs[0]}/")
    page.get_by_role("button", name="Copy the run’s number").click()
    expect(page.locator("[data-role=announcement]")).to_have_text("Copied")
    assert clipboard(page) == str(runs[0])
    page.get_by_role("button", name="Copy the target").click()
    expect(page.get_by_role("button", name="Copy the target")).to_have_attribute("data-copied", "yes")
    assert json.loads(clipboard(page)) == {"kind": "llvm", "mcpu": "znver4", "num-cores": 2}
    page.goto(f"{live_site.url}/runs/{runs[0]}/tasks/1/")
    page.get_by_role("button", name="Copy the workload’s hash").click()
    expect(page.locator("[data-role=announcement]")).to_have_text("Copied")
    assert clipboard(page) == "0000000000000001"


def test_it_copies_a_record_as_the_engine_wrote_it(live_site: LiveSite, signed_in: Page, runs: list[int]) -> None:
    page = signed_in
    page.goto(f"{live_site.url}/runs/{runs[0]}/tasks/0/?record=3")
    page.get_by_role("button", name="Copy record").click()
    expect(page.locator("[data-role=announcement]")).to_have_text("Copied")
    assert clipboard(page) == record_text(0, 1e-3)


def test_the_copied_link_has_the_current_view(live_site: LiveSite, signed_in: Page, runs: list[int]) -> None:
    page = signed_in
    page.goto(f"{live_site.url}/compare/?runs={runs[0]},{runs[1]}")
    page.locator("#x-time").click()
    expect(page.locator("#x-time")).to_have_attribute("aria-current", "true")
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert clipboard(page) == f"{live_site.url}/compare/?runs={runs[0]},{runs[1]}&x=time"
    expect(page.get_by_role("button", name="Copy link")).to_be_visible()


def test_it_copies_without_the_clipboard_api(live_site: LiveSite, signed_in: Page, runs: list[int]) -> None:
    page = signed_in
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.goto(f"{live_site.url}/runs/{runs[0]}/")
    page.evaluate("addEventListener('copy', () => { window.copied = document.activeElement.value; })")
    page.get_by_role("button", name="Copy the run’s number").click()
    expect(page.locator("[data-role=announcement]")).to_have_text("Copied")
    assert page.evaluate("window.copied") == str(runs[0])
    expect(page.get_by_role("button", name="Copy the run’s number")).to_be_focused()
