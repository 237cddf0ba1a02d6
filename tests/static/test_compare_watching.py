"""The compare page in a browser: runs selected in the list, live updates, the view in the address."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.live import LiveSite

pytestmark = [pytest.mark.browser, pytest.mark.tvm]
LONG_MS = 120_000
SMALL = {
    "network": "matmul",
    "network_options": {"n": 64},
    "target": "this",
    "trials_per_batch": 8,
    "strategy": "replay-trace",
    "min_repeat_ms": 10,
}


def role(page: Page, name: str) -> Any:
    return page.locator(f"[data-role={name}]")


def launch(site: LiveSite, token: str, **values: Any) -> int:
    status, run = site.api("POST", "/runs", SMALL | values, token=token)
    assert status == 201, run
    key: int = run["id"]
    return key


def last_points(page: Page) -> list[float]:
    """The trial at which each curve of the estimate ends, as Plotly has it."""
    found: list[float] = page.evaluate(
        "document.querySelector('[data-role=chart-estimate]').data.map(t => t.x.at(-1) ?? 0)"
    )
    return found


def test_selected_runs_are_compared_while_they_run(live_site: LiveSite, signed_in: Page) -> None:
    page, token = signed_in, live_site.token()
    first = launch(live_site, token, trials=8, seed=1)
    second = launch(live_site, token, trials=32, seed=2)
    page.goto(f"{live_site.url}/runs/")
    expect(role(page, "compare")).to_be_disabled()
    for key in (second, first):
        page.locator(f"#select-{key}").check()
    # A poll replaces the list: ticked boxes stay ticked.
    before = page.locator(f"#select-{first}").element_handle()
    page.wait_for_function("before => !before.isConnected", arg=before, timeout=LONG_MS)
    expect(page.locator(f"#select-{first}")).to_be_checked()
    expect(page.locator(f"#select-{second}")).to_be_checked()
    expect(role(page, "compare")).to_have_text("Compare 2")
    role(page, "compare").click()
    page.wait_for_url(re.compile(rf"/compare/\?runs={first},{second}$"))

    row = page.locator(f"tr[data-run='{second}']")
    page.wait_for_function(
        "() => document.querySelector('[data-role=chart-estimate]')?.data?.[1].x.length > 0", timeout=LONG_MS
    )
    page.evaluate("Plotly.relayout(document.querySelector('[data-role=chart-estimate]'), {'xaxis.range': [1, 20]})")
    page.locator("#x-trials").focus()
    expect(row.locator("[data-role=status]")).to_have_text("finished", timeout=LONG_MS)
    page.wait_for_function("() => document.querySelector('[data-role=chart-estimate]').data[1].x.at(-1) === 32")
    assert last_points(page) == [8, 32]
    assert page.evaluate("document.querySelector('[data-role=chart-estimate]').layout.xaxis.range") == [1, 20]
    expect(page.locator("#x-trials")).to_be_focused()


@pytest.mark.rare
def test_each_view_has_an_address(live_site: LiveSite, signed_in: Page) -> None:
    page, token = signed_in, live_site.token()
    keys = [launch(live_site, token, trials=8, seed=seed) for seed in (1, 2)]
    live_site.wait_for(
        lambda: all(live_site.api("GET", f"/runs/{key}", token=token)[1]["status"] == "finished" for key in keys), 120
    )
    page.goto(f"{live_site.url}/compare/?runs={keys[0]},{keys[1]}")
    expect(role(page, "empty-estimate")).to_be_hidden()
    page.locator("#values-relative").click()
    page.wait_for_url(re.compile("values=relative$"))
    expect(page.locator("#values-relative")).to_have_attribute("aria-current", "true")
    page.wait_for_function(
        "() => document.querySelector('[data-role=chart-estimate]').data[0].y.every(value => value === 1)"
    )
    page.locator(f"#baseline-{keys[1]}").click()
    page.wait_for_url(re.compile(rf"baseline={keys[1]}&values=relative$"))
    expect(page.locator(f"tr[data-run='{keys[1]}']")).to_contain_text("baseline")
    page.go_back()
    page.go_back()
    expect(page.locator("#values-absolute")).to_have_attribute("aria-current", "true")
    page.wait_for_function(
        "() => document.querySelector('[data-role=chart-estimate]').data[0].y.every(value => value < 0.1)"
    )
    expect(role(page, "compared-tasks").locator("tbody tr[data-row]")).to_have_count(1)
    expect(role(page, "compared-options")).to_contain_text("options.seed")
