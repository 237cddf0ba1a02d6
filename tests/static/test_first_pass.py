"""The chart of the estimate while tasks lack a latency."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.live import LiveSite

pytestmark = pytest.mark.browser

LONG_MS = 60_000
SEED = """
from tests.world import claimed, make_run, make_tasks, record_trials
from tuning.models import Run
run = claimed(make_run(device="elsewhere"))
make_tasks(run, 3)
record_trials(run, [(0, 4e-3), (1, 2e-3), (0, 1e-3)])
Run.objects.filter(pk=run.pk).update(origin="streamed")
print(run.pk)
"""
"""A running run of three tasks with weights 1, 2 and 3. A streamed one may be silent for minutes."""
MEASURE_THE_LAST = """
from tests.world import record_trials
from tuning.models import Run
record_trials(Run.objects.get(pk=KEY), [(2, 1e-3)])
"""
END = """
from tuning.models import Run
Run.objects.get(pk=KEY).move("running", to="finished")
"""
PARTS = """() => {
    const { data } = document.querySelector('[data-role=chart-estimate]');
    return data?.every(({ stackgroup }) => stackgroup) ? data.map(({ x, y }) => [[...x], [...y].map(one => +one.toFixed(6))]) : null;
}"""
CURVE = """() => {
    const { data } = document.querySelector('[data-role=chart-estimate]');
    return data?.length === 1 && !data[0].stackgroup && +data[0].y.at(-1).toFixed(6) === 0.008;
}"""


def test_it_stacks_what_is_known_until_every_task_is_measured(live_site: LiveSite, signed_in: Page) -> None:
    page = signed_in
    key = live_site.manage("shell", "--no-imports", "-c", SEED).strip()
    page.goto(f"{live_site.url}/runs/{key}/")
    parts = page.wait_for_function(PARTS, timeout=LONG_MS).json_value()
    assert parts == [[[1, 2, 3], [0.004, 0.004, 0.001]], [[1, 2, 3], [0, 0.004, 0.004]]]
    estimate = page.locator("[data-role=estimate]")
    expect(estimate).to_have_text("unknown")
    expect(page.locator("[data-role=note-estimate]")).to_have_text("unknown: 1 of 3 tasks not measured yet")
    scale = page.locator("[data-role=scale][data-chart=estimate]")
    expect(scale).to_be_hidden()

    live_site.manage("shell", "--no-imports", "-c", MEASURE_THE_LAST.replace("KEY", key))
    page.reload()
    page.wait_for_function(CURVE, timeout=LONG_MS)
    expect(estimate).to_have_text("8.000\u00a0ms")
    expect(page.locator("[data-role=note-estimate]")).to_be_empty()
    expect(scale).to_be_visible()
    live_site.manage("shell", "--no-imports", "-c", END.replace("KEY", key))
