"""The trials page in a browser: table and trial update without a reload, and the scatter shows more when zoomed in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.live import LiveSite
from tests.recording import Recording

pytestmark = pytest.mark.browser
TRIALS, TASKS = 20_000, 6
LONG_MS = 60_000


def role(page: Page, name: str) -> Any:
    return page.locator(f"[data-role={name}]")


@pytest.fixture(scope="module")
def run(live_site: LiveSite) -> int:
    """A synthetic run that is large enough to be thinned."""
    told = live_site.manage("seed_trials", "--trials", str(TRIALS), "--tasks", str(TASKS), "--json")
    key: int = json.loads(told)["runs"][0]
    return key


@pytest.fixture
def explored(live_site: LiveSite, signed_in: Page, run: int) -> Page:
    """The run's trials page, with its scatter drawn."""
    signed_in.goto(f"{live_site.url}/runs/{run}/trials/")
    expect(role(signed_in, "scatter-shown")).to_contain_text(f"of {TRIALS:,} trials shown", timeout=LONG_MS)
    return signed_in


def numbers(page: Page) -> list[int]:
    """The numbers of the trials in the scatter."""
    found: list[list[int | None]] = page.evaluate(
        """() => document.querySelector('[data-role=chart-scatter]').data
            .filter(trace => trace.meta.role !== 'picked')
            .map(trace => Array.from(location.search.includes('x=time') ? trace.customdata : trace.x))"""
    )
    return sorted(number for trace in found for number in trace if number is not None)


def axis(page: Page, name: str) -> Any:
    return page.evaluate("name => document.querySelector('[data-role=chart-scatter]').layout[name]", name)


def drag(
    page: Page, across: tuple[float, float], down: tuple[float, float] = (0.5, 0.5), chart: str = "scatter"
) -> None:
    """Drags a zoom box; its corners are shares of the width and height of the plot."""
    box = page.locator(f"[data-role=chart-{chart}] .nsewdrag").first.bounding_box()
    assert box
    (x0, x1), (y0, y1) = across, down
    page.mouse.move(box["x"] + box["width"] * x0, box["y"] + box["height"] * y0)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * x1, box["y"] + box["height"] * y1, steps=5)
    page.mouse.up()


@contextmanager
def refined(page: Page) -> Iterator[None]:
    """Waits until the scatter shows the effect of what was done inside."""
    before = role(page, "scatter-shown").inner_text()
    yield
    page.wait_for_function(
        "before => document.querySelector('[data-role=scatter-shown]').textContent !== before",
        arg=before,
        timeout=LONG_MS,
    )


def test_zooming_in_shows_more_and_a_double_click_shows_all(explored: Page) -> None:
    page = explored
    whole = numbers(page)
    assert TRIALS / 20 < len(whole) <= 6000
    expect(role(page, "scatter-shown")).to_contain_text("zoom in for more")
    expect(role(page, "scatter-reset")).to_be_hidden()
    with refined(page):
        drag(page, (0.4, 0.6))
    first, last = axis(page, "xaxis")["range"]
    assert 0.3 * TRIALS < first < last < 0.7 * TRIALS
    near = numbers(page)
    inside = range(int(first) + 1, int(last) + 1)
    assert near == list(inside)
    expect(role(page, "scatter-shown")).to_have_text(f"{len(inside):,} of {len(inside):,} trials in view shown")
    assert {number for number in whole if number in inside} <= set(near)
    with refined(page):
        page.locator("[data-role=chart-scatter] .nsewdrag").first.dblclick()
    assert axis(page, "xaxis")["autorange"] is True
    assert numbers(page) == whole


@pytest.mark.rare
def test_zooming_latencies_keeps_failed_trials_at_the_edge(explored: Page) -> None:
    page = explored
    with refined(page):
        drag(page, (0.2, 0.8), (0.3, 0.6))
    low, high = axis(page, "yaxis")["range"]
    shown = page.evaluate(
        "() => document.querySelector('[data-role=chart-scatter]').data.map(t => [t.meta.role ?? 'task', Array.from(t.y)])"
    )
    values = [value for kind, trace in shown for value in trace if kind == "task" and value is not None]
    assert values
    assert all(10**low * 0.999 <= value <= 10**high * 1.001 for value in values)
    assert any(trace for kind, trace in shown if kind == "failed")
    with refined(page):
        role(page, "scatter-reset").click()
    assert axis(page, "yaxis")["autorange"] is True


@pytest.mark.rare
def test_tasks_hidden_in_the_legend_are_not_requested(explored: Page) -> None:
    page = explored
    with refined(page), page.expect_request(re.compile("/scatter")) as asked:
        page.locator("[data-role=chart-scatter] .legendtoggle").first.click()
    assert re.findall(r"task=(\d+)", asked.value.url) == [str(task) for task in range(1, TASKS)]
    hidden = page.evaluate("document.querySelector('[data-role=chart-scatter]').data[0].visible")
    assert hidden == "legendonly"
    expect(role(page, "scatter-shown")).to_contain_text("in view")
    with refined(page), page.expect_request(re.compile("/scatter")) as asked:
        page.locator("[data-role=chart-scatter] .legendtoggle").first.click()
    assert "task=" not in asked.value.url


def click_point(page: Page) -> int:
    """Clicks a point near the middle of the plot; returns its trial's number."""
    place = page.evaluate(
        """() => {
            const plot = document.querySelector('[data-role=chart-scatter]');
            const { xaxis, yaxis } = plot._fullLayout;
            const area = plot.querySelector('.nsewdrag').getBoundingClientRect();
            for (const trace of plot.data) for (let i = 0; trace.meta.task !== undefined && i < trace.x.length; i += 1) {
              const [x, y] = [xaxis.d2p(trace.x[i]), yaxis.d2p(trace.y[i])];
              if (x > area.width * 0.4 && x < area.width * 0.6 && y > area.height * 0.2 && y < area.height * 0.8) return [area.x + x, area.y + y];
            }
        }"""
    )
    page.mouse.move(*place)
    # Plotly looks for the point under the mouse a while after it moved, and a click before that is none of a point.
    page.wait_for_function("() => document.querySelector('[data-role=chart-scatter]')._hoverdata?.length")
    page.mouse.click(*place)
    page.wait_for_url(re.compile(r"trial=\d+"))
    return int(re.findall(r"trial=(\d+)", page.url)[0])


def test_a_click_on_a_point_opens_its_trial_and_keeps_the_zoom(explored: Page) -> None:
    page = explored
    with refined(page):
        drag(page, (0.3, 0.6))
    zoom = axis(page, "xaxis")["range"]
    number = click_point(page)
    expect(role(page, "trial")).to_be_focused()
    expect(page.locator("#trial-title")).to_have_text(f"Trial {number:,}")
    assert axis(page, "xaxis")["range"] == zoom
    ring = page.evaluate("() => Array.from(document.querySelector('[data-role=chart-scatter]').data.at(-1).x)")
    assert ring == [number]
    page.reload()
    expect(page.locator("#trial-title")).to_have_text(f"Trial {number:,}")
    page.wait_for_function(
        "() => document.querySelector('[data-role=chart-scatter]')?.layout?.xaxis.autorange === false"
    )
    assert axis(page, "xaxis")["range"] == pytest.approx(zoom, rel=1e-5)
    page.go_back()
    expect(role(page, "trial")).to_have_count(0)


def test_each_axis_has_its_own_zoom(explored: Page) -> None:
    page = explored
    with refined(page):
        drag(page, (0.4, 0.6), (0.2, 0.7))
    by_number, latencies = axis(page, "xaxis")["range"], axis(page, "yaxis")["range"]
    with refined(page):
        page.get_by_role("button", name="Time").click()
    assert axis(page, "xaxis")["autorange"] is True
    assert axis(page, "yaxis")["range"] == latencies
    with refined(page):
        drag(page, (0.4, 0.5))
    assert len(numbers(page)) > 50
    with refined(page):
        page.get_by_role("button", name="Trials", exact=True).click()
    assert axis(page, "xaxis")["range"] == by_number
    role(page, "scale").get_by_role("button", name="Linear").click()
    page.wait_for_function("() => document.querySelector('[data-role=chart-scatter]').layout.yaxis.type === 'linear'")
    assert axis(page, "yaxis")["range"] == pytest.approx([10**power for power in latencies])


def rows(page: Page) -> list[int]:
    """The numbers of the trials in the table."""
    found: list[str] = page.locator("tr[data-trial]").evaluate_all("all => all.map(row => row.dataset.trial)")
    return [int(number) for number in found]


@pytest.mark.rare
def test_filters_and_a_jump_select_the_rows(explored: Page) -> None:
    page = explored
    page.get_by_label("Task", exact=True).select_option("2")
    page.get_by_label("Outcome").select_option("failed")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url(re.compile("only=failed"))
    found = page.locator("tr[data-trial]")
    expect(found.first).to_contain_text("2 fused")
    assert len(rows(page)) == 50
    expect(found.locator(".bad")).to_have_count(50)
    expect(role(page, "scatter-shown")).to_contain_text("matching trials in view shown")
    shown = page.evaluate(
        "() => document.querySelector('[data-role=chart-scatter]').data.map(t => [t.meta.task ?? t.meta.role, t.x.filter(x => x !== null).length])"
    )
    assert dict(map(tuple, shown)) == {"failed": len(numbers(page)), "picked": 0}
    assert set(rows(page)) <= set(numbers(page))
    page.get_by_role("link", name="Reset", exact=True).click()
    page.get_by_label("Jump to trial").fill("12345")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("from=12345"))
    assert rows(page) == list(range(12345, 12395))


def test_a_phone_shows_the_legend_when_asked(explored: Page) -> None:
    page = explored
    expect(role(page, "legend")).to_be_hidden()
    page.set_viewport_size({"width": 390, "height": 800})
    expect(role(page, "legend")).to_be_visible()
    page.wait_for_function("() => !document.querySelector('[data-role=chart-scatter] .legend')")
    plain = page.locator("[data-role=chart-scatter] .nsewdrag").first.bounding_box()
    role(page, "legend").click()
    expect(page.locator("[data-role=chart-scatter] .legendtoggle")).to_have_count(TASKS + 1)
    beside = page.locator("[data-role=chart-scatter] .nsewdrag").first.bounding_box()
    assert plain
    assert beside
    assert beside["height"] > 0.9 * plain["height"], "the plot must not become smaller"
    role(page, "legend").click()
    page.wait_for_function("() => !document.querySelector('[data-role=chart-scatter] .legend')")


def test_sorting_and_paging_do_not_reload_the_page(explored: Page) -> None:
    page = explored
    page.evaluate("window.same = true")
    page.locator("#order-task").click()
    expect(page.locator("th[aria-sort=ascending]")).to_have_text("Task")
    first = rows(page)
    assert first == sorted(first)
    expect(page.locator("#order-task")).to_be_focused()
    role(page, "next-page").click()
    expect(role(page, "first-page")).to_be_visible()
    second = rows(page)
    assert min(second) > max(first)
    page.locator("#order-latency_s").click()
    expect(page.locator("th[aria-sort=ascending]")).to_have_text("Latency")
    page.locator("#order-latency_s").click()
    expect(page.locator("th[aria-sort=descending]")).to_have_text("Latency")
    page.go_back()
    expect(page.locator("th[aria-sort=ascending]")).to_have_text("Latency")
    assert page.evaluate("window.same"), "the page was reloaded"


def test_a_trial_is_opened_and_closed_by_keyboard(explored: Page) -> None:
    page = explored
    page.locator("tr[data-trial='7'] a").focus()
    page.keyboard.press("Enter")
    expect(role(page, "trial")).to_be_focused()
    expect(page.locator("#trial-title")).to_have_text("Trial 7")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Close")).to_be_focused()
    page.keyboard.press("Enter")
    expect(role(page, "trial")).to_have_count(0)


def test_new_trials_are_added_to_the_scatter_and_keep_the_zoom(live_site: LiveSite, signed_in: Page) -> None:
    page = signed_in
    with Recording(live_site, trials=6000, batch=80, pause_s=0.1) as live:
        page.goto(f"{live_site.url}/runs/{live.run}/trials/")
        expect(role(page, "empty-scatter")).to_have_text("No trial yet.")
        live.go()
        page.wait_for_function(
            "() => document.querySelector('[data-role=chart-scatter]').data?.some(t => t.x.at(-1) > 200)",
            timeout=LONG_MS,
        )
        drag(page, (0.2, 0.6))
        page.wait_for_function(
            "() => document.querySelector('[data-role=chart-scatter]').layout.xaxis.autorange === false"
        )
        zoom = axis(page, "xaxis")["range"]
        expect(role(page, "trials-done")).to_have_text("6,000", timeout=LONG_MS)
        assert axis(page, "xaxis")["range"] == zoom
        first, last = zoom
        page.wait_for_function(
            """([first, last]) => {
                const data = document.querySelector('[data-role=chart-scatter]').data.filter(trace => trace.meta.role !== 'picked');
                return data.flatMap(trace => Array.from(trace.x)).filter(x => x >= first && x <= last).length === Math.floor(last) - Math.ceil(first) + 1;
            }""",
            arg=[max(first, 1), min(last, 6000)],
        )
        role(page, "scatter-reset").click()
        page.wait_for_function(
            "() => document.querySelector('[data-role=chart-scatter]').data.some(t => t.x.at(-1) > 5900)"
        )
        expect(role(page, "scatter-shown")).to_contain_text("of 6,000 trials shown")


def test_a_run_without_tasks_has_an_empty_chart(live_site: LiveSite, signed_in: Page) -> None:
    token = live_site.token()
    matmul = {"network": "matmul", "network_options": {"n": 64}, "trials": 8}
    first, second = (live_site.api("POST", "/runs", matmul, token=token)[1]["id"] for _ in range(2))
    for key in (second, first):
        live_site.api("POST", f"/runs/{key}/stop", token=token)
    said: list[str] = []
    signed_in.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    signed_in.goto(f"{live_site.url}/runs/{second}/trials/")
    signed_in.wait_for_selector("[data-role=chart-scatter] .main-svg", state="attached")
    expect(role(signed_in, "empty-scatter")).to_have_text("No trial yet.")
    assert said == []
