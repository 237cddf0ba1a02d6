"""What only a browser can show: the look of charts, their downloads, and the focus."""

from __future__ import annotations

import re
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from dashboard.presentation import charts, units
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

SEED_TWO = """
from tests.world import claimed, make_run, make_tasks, record_trials
run = claimed(make_run(device="elsewhere", trials_budget=40))
make_tasks(run, 2)
record_trials(run, [(0, {0} * 1e-3), (0, {0} * 9e-3), (1, {0} * 2e-3), *[(0, 1.0)] * 37])
run.move("running", to="finished")
print(run.pk)
"""
"""A run of two tasks, the second of which weighs 2, whose estimate is 5 ms times a factor from its third trial on."""


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


def test_a_long_table_tells_what_is_below_and_a_phone_shows_what_matters(many_tasks: Page) -> None:
    many_tasks.set_viewport_size({"width": 390, "height": 844})
    wrap = many_tasks.locator(".tasks-wrap")
    hint = wrap.locator(".more")
    expect(hint).to_have_text(re.compile(r"^\d+ more rows$"))
    wrap.evaluate("one => one.scrollTo(0, one.scrollHeight)")
    expect(hint).to_have_text("")
    for name in ("latency", "share"):
        right = many_tasks.locator(f"tr[data-task='0'] [data-cell={name}]").evaluate(
            "one => { const text = document.createRange(); text.selectNodeContents(one);"
            " return text.getBoundingClientRect().right; }"
        )
        assert right <= 390


def test_pointing_at_a_row_highlights_its_curve(many_tasks: Page) -> None:
    last = TASKS - 1
    plain = traces(many_tasks, "trace.line.color")
    many_tasks.locator(f"tr[data-task='{last}'] a[data-cell=name]").focus()
    many_tasks.wait_for_function("() => document.querySelector('[data-role=chart-latency]').data[0].opacity < 1")
    assert [task for task, opacity in enumerate(traces(many_tasks, "trace.opacity")) if opacity == 1] == [last]
    assert traces(many_tasks, "trace.line.color")[last] != plain[last]
    many_tasks.locator("[data-role=display]").focus()
    many_tasks.wait_for_function("() => document.querySelector('[data-role=chart-latency]').data[0].opacity === 1")
    assert traces(many_tasks, "trace.line.color") == plain


def point_at_line(page: Page, chart: str, task: int) -> None:
    """Points at the line of a task, or of the run at this place, near the right end of the chart."""
    place = page.evaluate(
        """([name, task]) => {
            const plot = document.querySelector(`[data-role=chart-${name}]`);
            plot.scrollIntoView({ block: 'center', behavior: 'instant' });
            const { xaxis, yaxis } = plot._fullLayout;
            const area = plot.querySelector('.nsewdrag').getBoundingClientRect();
            const { x, y } = plot.data.find(trace => trace.meta.task === task);
            const across = area.width * 0.93;
            const before = Array.from(x).findLastIndex(one => one <= xaxis.p2d(across));
            return [area.x + across, area.y + yaxis.d2p(y[before])];
        }""",
        [chart, task],
    )
    page.mouse.move(*place, steps=2)


def tip(page: Page, chart: str) -> Any:
    return page.locator(f"[data-role=chart-{chart}] ~ .tip")


def test_a_curve_of_one_point_is_a_dot(many_tasks: Page) -> None:
    modes = traces(many_tasks, "trace.mode")
    assert modes == ["lines"] * (TASKS - 1) + ["lines+markers"]
    assert many_tasks.locator("[data-role=chart-latency] .points path").count() == 1


def test_pointing_at_a_flat_curve_tells_its_own_value_there(many_tasks: Page) -> None:
    for task in (3, 1):
        point_at_line(many_tasks, "latency", task)
        expect(tip(many_tasks, "latency")).to_contain_text(f"{task} ")
        expect(tip(many_tasks, "latency")).to_contain_text(f"best {units.latency(1e-3 * (TASKS - task) / (task + 1))}")
        expect(tip(many_tasks, "latency")).to_contain_text(f"since trial {task + 1}")
    assert many_tasks.locator("[data-role=chart-latency] .hovertext").count() == 0, "Plotly names a point as well"
    many_tasks.locator("[data-role=display]").hover()
    expect(tip(many_tasks, "latency")).to_be_hidden()


def test_pointing_at_a_curve_of_a_comparison_tells_its_own_value_there(live_site: LiveSite, signed_in: Page) -> None:
    page = signed_in
    first, second = (
        live_site.manage("shell", "--no-imports", "-c", SEED_TWO.format(slower)).strip() for slower in (1, 3)
    )
    page.goto(f"{live_site.url}/compare/?runs={first},{second}")
    page.wait_for_function("() => document.querySelector('[data-role=chart-estimate]').data?.length === 2")
    for place, key, estimate_s in ((0, first, 5e-3), (1, second, 15e-3)):
        point_at_line(page, "estimate", place)
        expect(tip(page, "estimate")).to_contain_text(f"#{key} ")
        expect(tip(page, "estimate")).to_contain_text(units.latency(estimate_s))
        expect(tip(page, "estimate")).to_contain_text("since trial 3")


def test_plotlys_hint_covers_no_button(many_tasks: Page) -> None:
    plot = many_tasks.locator("[data-role=chart-latency] .nsewdrag").first
    plot.scroll_into_view_if_needed()
    area = plot.bounding_box()
    assert area
    many_tasks.mouse.move(area["x"] + area["width"] * 0.3, area["y"] + area["height"] * 0.3)
    many_tasks.mouse.down()
    many_tasks.mouse.move(area["x"] + area["width"] * 0.6, area["y"] + area["height"] * 0.6, steps=4)
    many_tasks.mouse.up()
    many_tasks.wait_for_selector(".plotly-notifier", state="attached")
    right, left = many_tasks.evaluate(
        """() => [document.querySelector('.plotly-notifier').getBoundingClientRect().right,
            document.querySelector('[data-role=downloads]').getBoundingClientRect().left]"""
    )
    assert right < left


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


DRAWN = "() => document.querySelector('[data-role=chart-allocation]').data?.length"


def bands(chart: str) -> str:
    """JavaScript for the bands of a chart: the name, lower and upper bound of each."""
    shapes = f"document.querySelector('[data-role=chart-{chart}]').layout.shapes"
    return f"({shapes} ?? []).map(({{ name, y0, y1 }}) => [name, y0, y1])"


def around(latency_s: float, noise: float) -> list[Any]:
    return ["noise", pytest.approx(latency_s * (1 - noise)), pytest.approx(latency_s * (1 + noise))]


def make_noisy(live_site: LiveSite, key: str, noise: float) -> None:
    live_site.manage("shell", "-c", f"Run.objects.filter(pk={key}).update(noise={noise})")


def test_noise_is_told_beside_the_estimate_and_drawn_around_the_ends_of_curves(
    live_site: LiveSite, signed_in: Page
) -> None:
    key = live_site.manage("shell", "--no-imports", "-c", SEED_TWO.format(1)).strip()
    signed_in.goto(f"{live_site.url}/runs/{key}/")
    signed_in.wait_for_function(DRAWN)
    expect(signed_in.locator("[data-role=noise]")).to_have_text("")
    assert signed_in.evaluate(bands("estimate")) == signed_in.evaluate(bands("latency")) == []
    make_noisy(live_site, key, 0.02)
    signed_in.reload()
    signed_in.wait_for_function(DRAWN)
    expect(signed_in.locator("[data-role=noise]")).to_have_text("±\u00a02\u00a0%")
    signed_in.wait_for_function(f"() => {bands('estimate')}.length === 1 && {bands('latency')}.length === 2")
    assert signed_in.evaluate(bands("estimate")) == [around(5e-3, 0.02)]
    assert signed_in.evaluate(bands("latency")) == [around(1e-3, 0.02), around(2e-3, 0.02)]
    signed_in.locator("[data-role=chart-latency] .legendtoggle").first.click()
    signed_in.wait_for_function(f"() => {bands('latency')}.length === 1")
    assert signed_in.evaluate(bands("latency")) == [around(2e-3, 0.02)]
    signed_in.goto(f"{live_site.url}/runs/{key}/tasks/1/")
    signed_in.wait_for_function(
        f"() => document.querySelector('[data-role=chart-task]')?.layout && {bands('task')}.length"
    )
    assert signed_in.evaluate(bands("task")) == [around(2e-3, 0.02)]


def test_among_many_curves_noise_is_drawn_around_the_one_that_is_pointed_at(
    live_site: LiveSite, many_tasks: Page
) -> None:
    make_noisy(live_site, many_tasks.url.rstrip("/").rpartition("/")[2], 0.1)
    many_tasks.reload()
    many_tasks.wait_for_function(f"() => {DRAWN.removeprefix('() => ')} && {bands('estimate')}.length")
    assert many_tasks.evaluate(bands("latency")) == []
    last = TASKS - 1
    many_tasks.locator(f"tr[data-task='{last}'] a[data-cell=name]").focus()
    many_tasks.wait_for_function(f"() => {bands('latency')}.length")
    assert many_tasks.evaluate(bands("latency")) == [around(1e-3 / TASKS, 0.1)]
    many_tasks.locator("[data-role=display]").focus()
    many_tasks.wait_for_function(f"() => !{bands('latency')}.length")
    band = many_tasks.locator("[data-role=chart-latency] ~ .tip-band")
    expect(band).to_be_hidden()
    point_at_line(many_tasks, "latency", 3)
    expect(band).to_be_visible()
    height = many_tasks.evaluate(
        "() => { const { yaxis } = document.querySelector('[data-role=chart-latency]')._fullLayout;"
        " return yaxis.d2p(0.9e-3) - yaxis.d2p(1.1e-3); }"
    )
    assert band.evaluate("one => one.getBoundingClientRect().height") == pytest.approx(height, abs=0.5)
    many_tasks.locator("[data-role=display]").hover()
    expect(band).to_be_hidden()
