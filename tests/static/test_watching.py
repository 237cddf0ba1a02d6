"""A user's path through Tuneboard in a browser, with real tuning: launch, watch, stop, resume, reconnect."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.live import LiveSite

pytestmark = [pytest.mark.browser, pytest.mark.tvm]
LONG_MS = 120_000


def role(page: Page, name: str) -> Any:
    return page.locator(f"[data-role={name}]")


def launch(page: Page, site: LiveSite, **values: str) -> int:
    """Launches a run of random candidates by the form; returns its id. A search would take seconds of a core."""
    page.goto(f"{site.url}/runs/new/")
    page.get_by_role("radio", name=re.compile("Matrix product")).check()
    page.get_by_label("Size n").fill("64")
    page.locator("summary", has_text="Advanced").click()
    page.get_by_label("Minimum time of a repeat (ms)").fill("10")
    page.get_by_label("Search strategy").select_option("replay-trace")
    for label, value in values.items():
        page.get_by_label(label, exact=True).fill(value)
    role(page, "launch-submit").click()
    page.wait_for_url(re.compile(r"/runs/\d+/$"), timeout=LONG_MS)
    return int(page.url.rstrip("/").rsplit("/", 1)[1])


def trials_done(page: Page) -> int:
    return int(role(page, "trials-done").inner_text().replace(",", ""))


def wait_for_trials(page: Page, number: int) -> None:
    page.wait_for_function(
        "n => Number(document.querySelector('[data-role=trials-done]').textContent.replaceAll(',', '')) >= n",
        arg=number,
        timeout=LONG_MS,
    )


def wait_for_status(page: Page, status: str) -> None:
    expect(role(page, "status")).to_have_text(status, timeout=LONG_MS)


def points(page: Page, chart: str) -> list[list[float]]:
    """The x values of a chart's traces, as Plotly holds them."""
    found: list[list[float]] = page.evaluate(
        "chart => document.querySelector(`[data-role=chart-${chart}]`).data.map(trace => Array.from(trace.x))", chart
    )
    return found


def wait_for_points(page: Page, count: int) -> None:
    """Waits until the allocation chart, which has a point for each trial, has this many."""
    page.wait_for_function(
        "n => new Set(document.querySelector('[data-role=chart-allocation]').data.flatMap(t => Array.from(t.x))).size >= n",
        arg=count,
        timeout=LONG_MS,
    )


def test_anonymous_users_see_only_the_sign_in_page(live_site: LiveSite, page: Page) -> None:
    page.goto(f"{live_site.url}/runs/1/")
    assert "/sign-in/" in page.url
    expect(page.get_by_text("login_url")).to_be_visible()


@pytest.mark.both_databases
def test_trials_of_a_launched_run_arrive_one_by_one(live_site: LiveSite, signed_in: Page) -> None:
    page = signed_in
    key = launch(page, live_site, **{"Trials": "24", "Trials per batch": "8", "Seed": "3"})
    page.evaluate(
        """() => {
            const done = document.querySelector('[data-role=trials-done]');
            window.seen = [Number(done.textContent)];
            new MutationObserver(() => window.seen.push(Number(done.textContent))).observe(done, {childList: true, characterData: true, subtree: true});
        }"""
    )
    wait_for_status(page, "finished")
    expect(role(page, "trials-done")).to_have_text("24")
    seen: list[int] = page.evaluate("window.seen")
    assert seen == sorted(seen)
    assert len(set(seen)) > 6, f"each trial shows as it ends, not a batch of 8 at once: {seen}"

    wait_for_points(page, 24)
    reached = "chart => document.querySelector(`[data-role=chart-${chart}]`).data.every(({x}) => x.at(-1) === 24)"
    for chart in ("latency", "estimate"):
        page.wait_for_function(reached, arg=chart)
    _, columns = live_site.api("GET", f"/runs/{key}/trials", token=live_site.token())
    assert columns["number"] == list(range(1, 25))
    (best,) = points(page, "latency")
    improved = [number for number, better in zip(columns["number"], columns["improved"], strict=True) if better]
    assert [x for x in best if x in improved] == improved
    row = role(page, "tasks-table").locator("tbody tr")
    expect(row).to_have_count(1)
    expect(row.locator("[data-cell=trials]")).to_have_text("24")
    expect(role(page, "estimate")).to_have_text(row.locator("[data-cell=latency]").inner_text())
    expect(role(page, "coverage")).to_have_text("1 of 1 tasks measured")
    expect(role(page, "console")).to_contain_text("Trial #24")
    for what in ("best", "all", "trials", "console"):
        expect(page.locator(f"[data-needs={what}]").first).to_have_attribute("href", re.compile(f"/api/v1/runs/{key}/"))
    expect(page.locator("[data-missing]:not([hidden])")).to_have_count(0)

    page.goto(f"{live_site.url}/runs/")
    expect(page.get_by_role("row").filter(has_text="matmul n=64").filter(has_text="24 / 24").first).to_be_visible()


def test_a_run_is_stopped_and_resumed_to_its_full_budget(live_site: LiveSite, signed_in: Page) -> None:
    page = signed_in
    key = launch(page, live_site, **{"Trials": "24", "Trials per batch": "8"})
    wait_for_trials(page, 2)
    role(page, "stop").click()
    expect(role(page, "stop-dialog")).to_be_visible()
    role(page, "stop-confirm").click()
    wait_for_status(page, "stopped")
    done = trials_done(page)
    assert 2 <= done < 24
    expect(role(page, "stop")).to_be_hidden()

    role(page, "resume").click()
    wait_for_status(page, "finished")
    expect(role(page, "trials-done")).to_have_text("24")
    _, run = live_site.api("GET", f"/runs/{key}", token=live_site.token())
    assert (run["trials_done"], run["tasks"][0]["trials"]) == (24, 24)


def test_a_page_that_lost_its_connection_says_so_and_catches_up(live_site: LiveSite, signed_in: Page) -> None:
    page = signed_in
    key = launch(page, live_site, **{"Trials": "400", "Trials per batch": "16"})
    wait_for_trials(page, 3)
    live_site.kill("dashboard.serve")
    expect(role(page, "connection")).to_be_visible(timeout=LONG_MS)
    expect(role(page, "connection")).to_be_hidden(timeout=LONG_MS)
    before = trials_done(page)
    wait_for_trials(page, before + 5)
    role(page, "stop").click()
    role(page, "stop-confirm").click()
    wait_for_status(page, "stopped")

    done = trials_done(page)
    wait_for_points(page, done)
    _, columns = live_site.api("GET", f"/runs/{key}/trials", token=live_site.token())
    assert columns["number"] == list(range(1, done + 1))


def test_new_trials_keep_zoom_and_hidden_traces(live_site: LiveSite, signed_in: Page) -> None:
    page = signed_in
    launch(page, live_site, **{"Trials": "400", "Trials per batch": "16"})
    wait_for_trials(page, 3)
    wait_for_points(page, 3)
    page.evaluate(
        """() => Plotly.relayout(document.querySelector('[data-role=chart-allocation]'), {'xaxis.range': [1, 2.5]})
            .then(() => Plotly.restyle(document.querySelector('[data-role=chart-latency]'), {visible: 'legendonly'}, [0]))"""
    )
    before = trials_done(page)
    wait_for_points(page, before + 4)
    assert page.evaluate("document.querySelector('[data-role=chart-allocation]').layout.xaxis.range") == [1, 2.5]
    assert page.evaluate("document.querySelector('[data-role=chart-latency]').data[0].visible") == "legendonly"
    role(page, "stop").click()
    role(page, "stop-confirm").click()
    wait_for_status(page, "stopped")


def test_a_form_shows_errors_next_to_its_fields(live_site: LiveSite, signed_in: Page) -> None:
    page = signed_in
    page.goto(f"{live_site.url}/runs/new/")
    page.get_by_label("Trials", exact=True).fill("0")
    page.get_by_label("Target", exact=True).fill("llvm -mcpu=nothing")
    role(page, "launch-submit").click()
    expect(page.locator("[data-role=field-error][data-field=trials]")).to_contain_text("from 1 to", timeout=LONG_MS)
    expect(page.locator("[data-role=field-error][data-field=target]")).to_be_visible()
    expect(page.get_by_label("Trials", exact=True)).to_have_value("0")
