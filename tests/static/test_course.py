"""How a run went is read once it is looked at, and follows the charts' axis."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.live import LiveSite

pytestmark = pytest.mark.browser
SEED = """
from tests.world import make_course, measured_run
run = measured_run([(0, 2e-3), (1, 3e-3), (0, 1e-3), (1, 1e-3)], device="elsewhere")
make_course(run)
run.move("running", to="finished")
print(run.pk)
"""


def test_the_parts_are_read_and_drawn(live_site: LiveSite, signed_in: Page) -> None:
    page, key = signed_in, live_site.manage("shell", "--no-imports", "-c", SEED).strip()
    page.goto(f"{live_site.url}/runs/{key}/")
    panel = page.locator("[data-role=time]")
    panel.scroll_into_view_if_needed()
    expect(panel.locator("table tbody tr")).to_have_count(3)
    expect(page.locator("[data-role=conditions]")).to_be_visible()
    expect(page.locator("[data-role=processor]")).to_contain_text("A CPU")
    page.wait_for_function("() => document.querySelector('[data-role=chart-accuracy]').data?.length === 2")
    page.locator("[data-axis=time]").click()
    for name in ("band", "conditions"):
        page.wait_for_function(
            f"() => document.querySelector('[data-role=chart-{name}]').layout.xaxis.title.text === 'Time since the start'"
        )
    assert page.evaluate("document.querySelector('[data-role=chart-band]').data[0].x") == [0, 4, 7, 10, 13]
    panel.locator("summary").click()
    page.wait_for_function("() => document.querySelector('[data-role=chart-predicted]').data?.[0].x.length === 8")
    panel.locator("select").select_option("1 fused_matmul1")
    expect(panel.locator("select")).to_have_value("1")
