"""Two runs are measured side by side from the page of their comparison, for real."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.live import LiveSite
from tests.static.test_compare_watching import LONG_MS, launch, role

pytestmark = [pytest.mark.browser, pytest.mark.tvm]
BANDS = (
    "document.querySelector('[data-role=chart-estimate]').layout.shapes.map(({ name, y0, y1 }) => ({ name, y0, y1 }))"
)


def test_runs_are_measured_side_by_side_and_the_page_concludes_from_it(live_site: LiveSite, signed_in: Page) -> None:
    page, token = signed_in, live_site.token("admin")
    # From a warm start, both might have the same schedule, of which more rounds fit into the time.
    keys = [launch(live_site, token, trials=8, seed=seed, warm_start=False) for seed in (1, 2)]
    live_site.wait_for(
        lambda: all(live_site.api("GET", f"/runs/{key}", token=token)[1]["status"] == "finished" for key in keys), 240
    )
    live_site.manage("shell", "-c", f"Run.objects.filter(pk__in={keys}).update(noise=0.03)")
    page.goto(f"{live_site.url}/compare/?runs={keys[0]},{keys[1]}&scale=linear")
    role(page, "measure-side-by-side").click()
    expect(role(page, "side-by-side-how")).to_contain_text(re.compile(r"\d+ rounds of 1 task"), timeout=LONG_MS)
    expect(page).to_have_url(re.compile(rf"/compare/\?runs={keys[0]},{keys[1]}&scale=linear$"))
    expect(role(page, "beside")).to_have_text([re.compile(r"s ±\s.*%.*baseline"), re.compile(r"s ±\s.*%.*%")])
    expect(role(page, "conclusions")).to_contain_text(f"Measured side by side, #{keys[1]} takes")
    status, shown = live_site.api("GET", f"/compare?runs={keys[0]},{keys[1]}", token=token)
    assert status == 200
    assert [run["beside"]["latency_s"] > 0 for run in shown["runs"]] == [True, True]
    assert shown["side_by_side"]["outdated"] == shown["side_by_side"]["failed"] == []

    page.wait_for_function(f"() => {BANDS}.length")
    (band,) = page.evaluate(BANDS)
    end = shown["runs"][0]["run"]["estimated_latency_s"]
    noise = 0.03 * 2**0.5
    assert (band["name"], band["y0"], band["y1"]) == (
        "noise",
        pytest.approx(end * (1 - noise)),
        pytest.approx(end * (1 + noise)),
    )
    page.locator("#values-relative").click()
    page.wait_for_function(f"() => Math.abs({BANDS}[0]?.y1 - {1 + noise}) < 1e-6")
