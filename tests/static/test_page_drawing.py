"""What only a browser can show: the look of charts, their downloads, and the focus."""

from __future__ import annotations

import re
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from dashboard.presentation import charts
from tests.live import LiveSite

pytestmark = pytest.mark.browser
LONG_MS = 60_000
TASKS = charts.MANY + 4
SEED = f"""
from tests.world import claimed, make_run, make_tasks, record_trials
run = claimed(make_run(device="elsewhere", trials_budget={TASKS}))
make_tasks(run, {TASKS})
record_trials(run, [(task, 1e-3 * ({TASKS} - task) / (task + 1)) for task in range({TASKS})])
run.move("running", to="finished")
print(run.pk)
"""
"""The task with index i contributes (TASKS - i) ms to the estimate: the first ones contribute most."""


@pytest.fixture
def many_tasks(live_site: LiveSite, signed_in: Page) -> Page:
    """The page of a run with more tasks than the legend shows, with its charts drawn."""
    key = live_site.manage("shell", "--no-imports", "-c", SEED).strip()
    signed_in.goto(f"{live_site.url}/runs/{key}/")
    signed_in.wait_for_function("() => document.querySelector('[data-role=chart-allocation]').data?.length")
    return signed_in


def traces(page: Page, look: str) -> list[Any]:
    found: list[Any] = page.evaluate(
        f"Array.from(document.querySelector('[data-role=chart-latency]').data, trace => {look})"
    )
    return found


def foremost(page: Page) -> list[int]:
    return [task for task, shown in enumerate(traces(page, "trace.showlegend")) if shown]


def test_with_many_tasks_those_that_contribute_most_are_highlighted(many_tasks: Page) -> None:
    chosen = list(range(charts.SERIES))
    assert foremost(many_tasks) == chosen
    colors = traces(many_tasks, "trace.line.color")
    assert len({colors[task] for task in chosen}) == charts.SERIES
    grey = {color for task, color in enumerate(colors) if task not in chosen}
    assert len(grey) == 1
    assert not grey & {colors[task] for task in chosen}
    assert many_tasks.locator("[data-role=tasks-table] tr[data-other]").count() == TASKS - charts.SERIES


def test_pointing_at_a_row_highlights_its_curve(many_tasks: Page) -> None:
    last = TASKS - 1
    plain = traces(many_tasks, "trace.line.color")
    many_tasks.locator(f"tr[data-task='{last}'] a").focus()
    many_tasks.wait_for_function("() => document.querySelector('[data-role=chart-latency]').data[0].opacity < 1")
    assert [task for task, opacity in enumerate(traces(many_tasks, "trace.opacity")) if opacity == 1] == [last]
    assert traces(many_tasks, "trace.line.color")[last] != plain[last]
    many_tasks.locator("[data-role=display]").focus()
    many_tasks.wait_for_function("() => document.querySelector('[data-role=chart-latency]').data[0].opacity === 1")
    assert traces(many_tasks, "trace.line.color") == plain


def test_a_chart_downloads_as_a_large_png_and_is_sent_nowhere(many_tasks: Page) -> None:
    for name in ("latency", "estimate", "allocation"):
        chart = many_tasks.locator(f"[data-role=chart-{name}]")
        chart.hover()
        buttons = chart.locator(".modebar-btn").evaluate_all("all => all.map(button => button.dataset.title)")
        assert buttons == ["Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes", "Download as PNG", "Download as HTML"]
        with many_tasks.expect_download() as download:
            chart.locator(".modebar-btn").nth(-2).click()
        assert re.fullmatch(rf"mlp_znver4_run-\d+_{name}\.png", download.value.suggested_filename)
        head = download.value.path().read_bytes()[:24]
        assert head.startswith(b"\x89PNG")
        assert struct.unpack(">II", head[16:24]) == (2400, 1350)


def open_menu(page: Page) -> None:
    page.locator("[data-role=downloads] summary").click()


def test_a_chart_downloads_as_html_that_opens_offline(many_tasks: Page, browser: Any, tmp_path: Path) -> None:
    many_tasks.get_by_role("button", name="Time").click()
    open_menu(many_tasks)
    with many_tasks.expect_download() as download:
        many_tasks.get_by_role("button", name="Best latency as HTML").click()
    assert re.fullmatch(r"mlp_znver4_run-\d+_latency\.html", download.value.suggested_filename)
    download.value.save_as(tmp_path / "chart.html")
    alone = browser.new_context(offline=True)
    page, said = alone.new_page(), []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto((tmp_path / "chart.html").as_uri())
    page.wait_for_function("() => document.querySelector('#chart .scatterlayer path.js-line')")
    assert page.title().startswith("Best latency of each task, run ")
    assert page.evaluate("document.querySelector('#chart').data.length") == TASKS
    assert page.evaluate("document.querySelector('#chart').layout.xaxis.title.text") == "Time since the start"
    assert said == []
    alone.close()


def test_records_are_downloaded_from_the_menu(many_tasks: Page) -> None:
    open_menu(many_tasks)
    many_tasks.get_by_label("Number of best records").select_option("1")
    with many_tasks.expect_download() as download:
        many_tasks.get_by_role("link", name="Best records as zip").click()
    assert re.fullmatch(r"mlp_znver4_run-\d+_best-1-records\.zip", download.value.suggested_filename)
    with zipfile.ZipFile(download.value.path()) as archive:
        assert len(archive.read("database_tuning_record.json").splitlines()) == TASKS
        assert len(archive.read("database_workload.json").splitlines()) == TASKS
    expect(many_tasks.locator("[data-missing=best]")).to_be_hidden()
    expect(many_tasks.locator("[data-missing=console]")).to_be_visible()
    many_tasks.keyboard.press("Escape")
    expect(many_tasks.get_by_role("link", name="Best records as zip")).to_be_hidden()


def test_the_first_invalid_field_is_focused_and_described_by_its_error(live_site: LiveSite, signed_in: Page) -> None:
    signed_in.goto(f"{live_site.url}/runs/new/")
    signed_in.get_by_text("Advanced").click()
    for name in ("Number (executions per repeat)", "Repeat (repeats per trial)"):
        signed_in.get_by_label(name, exact=True).fill("0")
    signed_in.locator("[data-role=launch-submit]").click()
    fields, messages = signed_in.locator("[aria-invalid=true]"), signed_in.locator("[data-role=field-error]")
    expect(fields).to_have_count(2, timeout=LONG_MS)
    expect(fields.first).to_be_focused()
    expect(fields.first).to_be_in_viewport()
    for field, message in zip(fields.all(), messages.all(), strict=True):
        expect(field).to_have_accessible_description(re.compile(re.escape(message.inner_text())))


LOST = """
from datetime import timedelta
from django.utils import timezone
from tests.world import make_machine
make_machine("of-the-page", heartbeat_at=timezone.now() - timedelta(hours=2))
"""


def test_the_machines_page_shows_who_comes_and_asks_before_something_ends(live_site: LiveSite, signed_in: Page) -> None:
    said: list[str] = []
    signed_in.on("console", lambda message: said.append(message.text))
    signed_in.goto(f"{live_site.url}/devices/")
    signed_in.wait_for_url("**/machines/")
    expect(signed_in.locator("[data-machine]")).to_have_count(1)
    live_site.manage("shell", "-v", "0", "--no-imports", "-c", LOST)
    came = signed_in.locator("[data-machine=of-the-page]")
    expect(came).to_contain_text("last heard from 2 h ago", timeout=LONG_MS)
    came.get_by_role("button", name="Forget").click()
    asked = signed_in.locator("[data-role=forget-dialog]")
    expect(asked).to_contain_text("Forget of-the-page?")
    asked.get_by_role("button", name="Keep it").click()
    expect(asked).to_be_hidden()
    came.get_by_role("button", name="Forget").click()
    asked.get_by_role("button", name="Forget", exact=True).click()
    expect(signed_in.locator("[data-role=message]")).to_contain_text("of-the-page is forgotten.")
    expect(came).to_have_count(0)
    assert said == []
