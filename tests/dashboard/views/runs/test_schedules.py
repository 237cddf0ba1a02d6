"""The schedules of a finished run's records, in a browser and with real TVM."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from tests.live import LiveSite

pytestmark = [pytest.mark.browser, pytest.mark.tvm]
LONG_MS = 120_000
PHONE: ViewportSize = {"width": 400, "height": 850}


@pytest.fixture(scope="module")
def task(live_site: LiveSite) -> str:
    """The path of a task with records."""
    token = live_site.token()
    search = {"strategy": "replay-trace", "schedule_rules": "tvm", "seed": 1}
    options = {"trials": 16, "trials_per_batch": 8, "min_repeat_ms": 10, **search}
    body = {"network": "matmul", "network_options": {"n": 64}, "target": "this", **options}
    _, run = live_site.api("POST", "/runs", body, token=token)
    path = f"/runs/{run['id']}"
    live_site.wait_for(lambda: live_site.api("GET", path, token=token)[1]["status"] == "finished", 180)
    return f"{path}/tasks/0"


def role(page: Page, name: str) -> Any:
    return page.locator(f"[data-role={name}]")


def trials(page: Page) -> list[str]:
    """The trial numbers of the best records, best first."""
    cells: list[str] = role(page, "records-table").locator("tbody a").all_inner_texts()
    return cells


def test_a_record_is_opened_compared_and_linked(live_site: LiveSite, signed_in: Page, task: str) -> None:
    page = signed_in
    page.goto(f"{live_site.url}{task}/")
    expect(role(page, "record")).to_be_hidden()
    best, second, *_ = trials(page)
    role(page, "records-table").get_by_role("link", name=f"Record of trial {best}", exact=True).click()
    expect(role(page, "schedule")).to_contain_text("def apply_trace", timeout=LONG_MS)
    expect(role(page, "decisions").locator("tbody tr", has_text="sample_perfect_tile")).to_have_count(3)
    expect(role(page, "tensorir-after")).to_contain_text("tiling_structure")
    assert page.url == f"{live_site.url}{task}/?record={best}"
    expect(role(page, "records-table").locator("[aria-current]")).to_have_text(best)

    role(page, "copy").first.click()
    expect(role(page, "copy").first).to_have_text("Copied")

    page.get_by_role("link", name=f"with trial {second}", exact=True).click()
    expect(role(page, "diff")).to_contain_text(f"Trial {second}")
    role(page, "record").get_by_role("link", name="Schedule").last.click()
    expect(role(page, "diff")).to_contain_text("sample_perfect_tile")
    expect(role(page, "diff").locator("mark").first).to_be_visible()
    assert page.url == f"{live_site.url}{task}/?record={best}&diff={second}&of=schedule"
    page.reload()
    expect(role(page, "diff")).to_contain_text("sample_perfect_tile")

    page.go_back()
    expect(role(page, "diff")).to_contain_text("T.sblock")
    page.go_back()
    expect(role(page, "decisions")).to_be_visible()
    expect(role(page, "chart-task").locator(".main-svg").first).to_be_visible()


def test_before_and_after_are_stacked_on_a_phone(live_site: LiveSite, signed_in: Page, task: str) -> None:
    page = signed_in
    page.goto(f"{live_site.url}{task}/")
    page.goto(f"{live_site.url}{task}/?record={trials(page)[0]}&diff=before")
    hunk = role(page, "diff").locator("[data-changed]").first
    before, after = (hunk.locator(f".{side}:not([data-line=''])").first for side in ("left", "right"))
    expect(after).to_be_visible(timeout=LONG_MS)
    beside, other = before.bounding_box(), after.bounding_box()
    assert beside["x"] + beside["width"] <= other["x"] + 1
    page.set_viewport_size(PHONE)
    above, below = before.bounding_box(), after.bounding_box()
    assert above["x"] == below["x"]
    assert above["y"] + above["height"] <= below["y"] + 1
    equal = role(page, "diff").locator(".hunk:not([data-changed])").last
    expect(equal.locator(".right").first).to_be_visible()
    expect(equal.locator(".left").first).to_be_hidden()
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]


@pytest.mark.rare
def test_it_says_why_a_record_cannot_be_shown_and_offers_a_retry(
    live_site: LiveSite, signed_in: Page, task: str
) -> None:
    page = signed_in
    number = re.search(r"\d+", task)
    assert number
    corrupt = (
        "from tuning.models import Record; record = Record.objects.filter(task__run={}).last(); "
        "record.text = record.text.replace('SamplePerfectTile', 'SampleNothing'); record.save(); print(record.trial)"
    )
    trial = live_site.manage("shell", "--verbosity", "0", "-c", corrupt.format(number[0])).strip()
    page.goto(f"{live_site.url}{task}/?record={trial}")
    expect(role(page, "record-error")).to_contain_text("SampleNothing is not registered", timeout=LONG_MS)
    role(page, "retry").click()
    expect(role(page, "step")).to_be_visible()
    expect(role(page, "record-error")).to_contain_text("SampleNothing is not registered", timeout=LONG_MS)
