"""Zooming live charts: the ranges stay while new points arrive."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.views.runs.test_exploring import drag, role
from tests.live import LiveSite
from tests.recording import Recording

pytestmark = pytest.mark.browser
LONG_MS = 120_000
CHARTS = ("latency", "allocation")


def ranges(page: Page, chart: str) -> list[Any]:
    """The zoomed range of each axis, horizontal first; None if it isn't zoomed."""
    found: list[Any] = page.evaluate(
        """name => ['xaxis', 'yaxis'].map(axis => {
            const { autorange, range } = document.querySelector(`[data-role=chart-${name}]`).layout[axis];
            return autorange === true ? null : [...range];
        })""",
        chart,
    )
    return found


def wait_for_trial(page: Page, number: int) -> None:
    """Waits until the charts reach it."""
    page.wait_for_function(
        "n => document.querySelector('[data-role=chart-allocation]').data?.some(trace => trace.x.at(-1) >= n)",
        arg=number,
        timeout=LONG_MS,
    )


def zoom_in(page: Page) -> dict[str, list[Any]]:
    for chart in CHARTS:
        drag(page, (0.3, 0.7), (0.2, 0.8), chart)
        page.wait_for_function(
            "name => document.querySelector(`[data-role=chart-${name}]`).layout.xaxis.autorange === false", arg=chart
        )
    zooms = {chart: ranges(page, chart) for chart in CHARTS}
    assert all(None not in zoom for zoom in zooms.values())
    return zooms


@pytest.mark.rare
def test_a_zoom_survives_thousands_of_trials_and_reloaded_figures(live_site: LiveSite, signed_in: Page) -> None:
    page = signed_in
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/figures/" in request.url else None)
    with Recording(live_site, trials=9000, batch=100, pause_s=0.1, hold_after=300) as live:
        page.goto(f"{live_site.url}/runs/{live.run}/")
        live.go()
        wait_for_trial(page, 300)
        zooms = zoom_in(page)
        before = len(asked)
        live.go()
        page.evaluate(
            "document.documentElement.dataset.theme = 'dark'; document.dispatchEvent(new Event('themechange'))"
        )
        page.set_viewport_size({"width": 1100, "height": 800})
        wait_for_trial(page, 9000)
        assert len(asked) > before, "beyond a number of points, the figures are loaded again, thinned"
        assert {chart: ranges(page, chart) for chart in CHARTS} == zooms
        points = page.evaluate(
            "document.querySelector('[data-role=chart-allocation]').data.reduce((n, t) => n + t.x.length, 0)"
        )
        assert points < 8000
        page.locator("[data-role=chart-latency] .nsewdrag").first.dblclick()
        page.wait_for_function(
            "() => document.querySelector('[data-role=chart-latency]').layout.xaxis.autorange === true"
        )
        assert ranges(page, "latency") == [None, None]


@pytest.mark.rare
def test_a_zoom_survives_a_lost_connection_and_a_hidden_tab(live_site: LiveSite, signed_in: Page) -> None:
    site, page = live_site, signed_in
    with Recording(site, trials=3000, batch=20, pause_s=0.1) as live:
        page.goto(f"{site.url}/runs/{live.run}/")
        live.go()
        wait_for_trial(page, 200)
        zooms = zoom_in(page)
        with page.expect_websocket(timeout=LONG_MS):
            site.restart_web()
        expect(role(page, "connection")).to_be_hidden(timeout=LONG_MS)
        hide(page, hidden=True)
        with page.expect_response(re.compile(rf"/api/v1/runs/{live.run}/trials\?"), timeout=LONG_MS):
            hide(page, hidden=False)
        wait_for_trial(page, 3000)
        assert {chart: ranges(page, chart) for chart in CHARTS} == zooms


def hide(page: Page, *, hidden: bool) -> None:
    page.evaluate(
        """hidden => {
            Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });
            document.dispatchEvent(new Event('visibilitychange'));
        }""",
        hidden,
    )


def test_each_axis_and_scale_gets_its_zoom_back(live_site: LiveSite, signed_in: Page) -> None:
    page = signed_in
    with Recording(live_site, trials=1000, batch=50, pause_s=0.05) as live:
        page.goto(f"{live_site.url}/runs/{live.run}/")
        live.go()
        wait_for_trial(page, 1000)
        zoom = zoom_in(page)["latency"]
        page.locator("[data-axis=time]").click()
        page.wait_for_function(
            "() => document.querySelector('[data-role=chart-latency]').layout.xaxis.autorange === true"
        )
        assert ranges(page, "latency") == [None, zoom[1]]
        page.locator("[data-axis=number]").click()
        page.wait_for_function(
            "() => document.querySelector('[data-role=chart-latency]').layout.xaxis.autorange === false"
        )
        assert ranges(page, "latency") == zoom
        scale = page.locator("[data-role=scale][data-chart=latency]")
        scale.get_by_role("button", name="Linear").click()
        page.wait_for_function(
            "() => document.querySelector('[data-role=chart-latency]').layout.yaxis.type === 'linear'"
        )
        assert ranges(page, "latency")[1] == pytest.approx([10**power for power in zoom[1]])
        scale.get_by_role("button", name="Log").click()
        page.wait_for_function("() => document.querySelector('[data-role=chart-latency]').layout.yaxis.type === 'log'")
        assert ranges(page, "latency")[1] == pytest.approx(zoom[1])


def horizontal_range(page: Page) -> list[float]:
    found: list[float] = page.evaluate("[...document.querySelector('[data-role=chart-allocation]').layout.xaxis.range]")
    return found


def test_new_trials_do_not_disturb_dragging_a_zoom_box(live_site: LiveSite, signed_in: Page) -> None:
    page = signed_in
    with Recording(live_site, trials=2000, batch=40, pause_s=0.1, hold_after=200) as live:
        page.goto(f"{live_site.url}/runs/{live.run}/")
        live.go()
        wait_for_trial(page, 200)
        box = page.locator("[data-role=chart-allocation] .nsewdrag").first.bounding_box()
        assert box
        page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 20)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + box["height"] - 20, steps=4)
        page.wait_for_timeout(300)
        before = horizontal_range(page)
        live.go()
        page.wait_for_timeout(1000)
        assert horizontal_range(page) == before
        page.mouse.up()
        page.wait_for_function(
            "() => document.querySelector('[data-role=chart-allocation]').layout.xaxis.autorange === false"
        )
        first, end = ranges(page, "allocation")[0]
        width = before[1] - before[0]
        assert [first, end] == pytest.approx([before[0] + width * 0.25, before[0] + width * 0.75], rel=0.05)
        wait_for_trial(page, 2000)
        assert ranges(page, "allocation")[0] == [first, end]
