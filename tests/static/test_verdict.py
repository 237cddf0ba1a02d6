"""What is left to gain, on a run's page in a browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, Route, expect

from tests.live import LiveSite

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("without_charts")]
SEED = """
from tests.world import claimed, make_run, make_tasks, record_trials
from tuning.models import Run
for latencies in ([(0, 1e-3), (1, 9e-3)], [(0, 4e-3), (1, 3e-3)]):
    run = claimed(make_run(device=""))
    make_tasks(run)
    record_trials(run, latencies)
    run.move("running", to="finished")
    Run.objects.filter(pk=run.pk).update(target_fingerprint="of the verdict")
    print(run.pk)
"""
"""The first run is faster in task 0, the second in task 1. No other run on the site has their target."""


def cells(page: Page, name: str) -> list[str]:
    return [
        text.replace("\u00a0", " ")
        for text in page.locator(f"[data-role=tasks-table] tbody [data-cell={name}]").all_inner_texts()
    ]


def test_the_page_shows_what_is_left_to_gain(live_site: LiveSite, signed_in: Page) -> None:
    theirs, own = live_site.manage("shell", "--no-imports", "-c", SEED).split()
    asked: list[str] = []
    signed_in.on("request", lambda request: asked.append(request.url.removeprefix(live_site.url)))
    signed_in.goto(f"{live_site.url}/runs/{own}/")
    expect(signed_in.locator("[data-role=verdict-sentence]").first).to_contain_text("Other runs are faster in task 0")
    assert cells(signed_in, "known") == ["1.000 ms", "9.000 ms"]
    assert cells(signed_in, "gain") == ["30.0 %", "none"]
    assert asked.count(f"/runs/{own}/verdict/") == asked.count(f"/runs/{own}/") == 1
    link = signed_in.locator("tr[data-task='0'] [data-cell=known] a")
    assert link.get_attribute("href") == f"/runs/{theirs}/tasks/0/?record=1#record"
    signed_in.get_by_role("button", name="Gain if equalled").click()
    assert cells(signed_in, "gain") == ["30.0 %", "none"]
    signed_in.get_by_role("button", name="Gain if equalled").click()
    assert cells(signed_in, "gain") == ["none", "30.0 %"]
    link.click()
    signed_in.wait_for_url(f"**/runs/{theirs}/tasks/0/**")


LATE = """
from django.utils import timezone
from tests.world import make_machine, make_roofline, make_run, measured_run
from tuning.models import Machine, Run
machine = make_machine("known-at {width}", key="known at {width}")
make_roofline(machine)
measured_run([(0, 1e-4), (1, 9e-3)], device="").move("running", to="finished")
run = measured_run([(0, 9e-3 / (1 + number)) for number in range(32)] + [(1, 1e-4)] * 32, device="")
run.move("running", to="finished")
Run.objects.filter(pk=run.pk).update(machine=machine, noise=0.9)
Machine.objects.filter(pk=machine.pk).update(forgotten_at=timezone.now())
print(run.pk, make_run(status="failed", error="No worker.").pk)
"""
TOP = "document.querySelector('[data-role=charts]').getBoundingClientRect().top + scrollY"


@pytest.mark.parametrize("width", [1440, 390])
def test_nothing_below_moves_when_it_arrives(live_site: LiveSite, signed_in: Page, width: int) -> None:
    page = signed_in
    page.set_viewport_size({"width": width, "height": 900})
    told, silent = live_site.manage("shell", "--no-imports", "-c", LATE.replace("{width}", str(width))).split()
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/verdict/", hold)
    with page.expect_request("**/verdict/"):
        page.goto(f"{live_site.url}/runs/{told}/")
    expect(page.get_by_role("heading", name="What is left to gain")).to_be_visible()
    before = page.evaluate(TOP)
    held[0].continue_()
    expect(page.locator("[data-role=verdict-sentence]")).to_have_count(3)
    assert page.evaluate(TOP) == before
    page.unroute("**/verdict/")
    with page.expect_response("**/verdict/"):
        page.goto(f"{live_site.url}/runs/{silent}/")
    expect(page.locator("[data-role=gains]")).to_be_attached()
    expect(page.locator("[data-role=verdict-panel]")).to_be_hidden()


KNOWN = """
from django.utils import timezone
from tests.world import make_machine, make_roofline, measured_run
from tuning.models import Machine, Run
machine = make_machine("one-with-a-roofline")
make_roofline(machine)
for where in (None, machine):
    run = measured_run([(0, 4e-3), (1, 3e-3)], device="")
    run.move("running", to="finished")
    Run.objects.filter(pk=run.pk).update(machine=where)
    print(run.pk)
Machine.objects.filter(pk=machine.pk).update(forgotten_at=timezone.now())
"""
"""Forgotten, so that it isn't offered to the runs that other tests launch."""


def test_the_roof_of_each_task_is_shown_where_it_is_known(live_site: LiveSite, signed_in: Page) -> None:
    unknown, known = live_site.manage("shell", "--no-imports", "-c", KNOWN).split()
    signed_in.goto(f"{live_site.url}/runs/{unknown}/")
    expect(signed_in.locator("[data-role=verdict-sentence]").first).to_be_visible()
    column = signed_in.get_by_role("button", name="% of roof")
    expect(column).to_be_hidden()
    expect(signed_in.locator("[data-role=roofline]")).to_be_hidden()
    signed_in.goto(f"{live_site.url}/runs/{known}/")
    expect(column).to_be_visible()
    assert cells(signed_in, "roof") == ["0.2 % compute", "0.7 % compute"]
    column.click()
    assert cells(signed_in, "roof") == ["0.7 % compute", "0.2 % compute"]
    with signed_in.expect_response(f"**/runs/{known}/roofline/") as answer:
        signed_in.locator("[data-role=roofline] summary").click()
    assert answer.value.json()["figure"]
    expect(signed_in.locator("[data-role=chart-roofline]")).to_be_visible()


LIVELY = """
from tests.world import measured_run
run = measured_run([(0, 9e-3 / (1 + number)) for number in range(32)] + [(1, 1e-4)] * 32)
run.move("running", to="finished")
print(run.pk)
"""


def test_a_button_fills_in_by_how_many_trials_to_extend(live_site: LiveSite, signed_in: Page) -> None:
    key = live_site.manage("shell", "--no-imports", "-c", LIVELY).strip()
    signed_in.goto(f"{live_site.url}/runs/{key}/")
    signed_in.get_by_role("button", name="Extend by 20 trials").click()
    dialog = signed_in.get_by_role("dialog", name="Extend this run")
    expect(dialog.locator("[name=trials]")).to_have_value("20")
    dialog.get_by_role("button", name="Cancel").click()
    signed_in.get_by_role("link", name="Tune just this task").click()
    expect(signed_in.locator("[name=tasks]")).to_have_value("0")
