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


POOL = """
from tests.world import make_course, measured_run
from tuning.models import ConditionSample
run = measured_run([(0, 2e-3), (1, 3e-3), (0, 1e-3), (1, 1e-3)], device="elsewhere", machines_wanted=0)
make_course(run)
run.condition_samples.update(machine="lab-2")
for at in range(2):
    ConditionSample.objects.create(run=run, machine="lab-10", at_s=3.0 * at, done=at, others_cores=7.0, cpus=8)
run.move("running", to="finished")
print(run.pk)
"""


def test_of_a_pool_one_machine_is_drawn_at_a_time(live_site: LiveSite, signed_in: Page) -> None:
    page, key = signed_in, live_site.manage("shell", "--no-imports", "-c", POOL).strip()
    page.goto(f"{live_site.url}/runs/{key}/")
    chosen = page.locator("[data-role=conditions-machine]")
    drawn = "document.querySelector('[data-role=chart-conditions]').data?.[0].y"
    page.locator("[data-role=chart-allocation]").scroll_into_view_if_needed()
    expect(chosen).to_have_value("lab-10")
    page.wait_for_function(f"() => String({drawn}) === '7,7'")
    assert chosen.locator("option").all_inner_texts() == ["lab-2", "lab-10"]
    chosen.select_option("lab-2")
    page.wait_for_function(f"() => String({drawn}) === '0,0.5,1,1.5'")
    expect(chosen).to_have_value("lab-2")
