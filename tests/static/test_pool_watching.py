"""The machines of a run's pool in a browser: what becomes of them is on the page without a reload."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.live import LiveSite

pytestmark = pytest.mark.browser
SHELL = ("shell", "-v", "0", "--no-imports", "-c")
MADE = """
from tests.world import make_machine, make_run
from tuning.models import PoolMember
run = make_run(name="on three machines", device="elsewhere", machines_wanted=3)
for number, trials in enumerate((30, 10, 0), 1):
    machine = make_machine(f"pool-{number}", devices=[])
    state = "measuring" if trials else "checking"
    PoolMember.objects.create(run=run, machine=machine, device="elsewhere", pool="p", state=state, trials=trials)
print(run.pk)
"""
CHANGED = """
from tuning.models import PoolMember, Run
from tuning.notify.announce import announce_status
members = PoolMember.objects.filter(run={run})
members.filter(machine__name="pool-1").update(trials=60, differs=None)
members.filter(machine__name="pool-2").update(state="lost", reason="It stopped responding.", differs=-0.0003)
members.filter(machine__name="pool-3").update(state="left_out", reason="It differs by 12.0 %, beyond noise of 1.0 %.", differs=0.12, failed=1)
announce_status(Run.objects.get(pk={run}))
"""
REMOVED = """
from tuning.models import Machine, PoolMember, Run
Run.everything.filter(pk={run}).delete()
Machine.everything.filter(name__startswith="pool-").delete()
"""


@pytest.fixture
def pooled(live_site: LiveSite) -> Iterator[int]:
    """A queued run with three machines, which are gone afterwards."""
    key = int(live_site.manage(*SHELL, MADE))
    yield key
    live_site.manage(*SHELL, REMOVED.format(run=key))


def told(page: Page, machine: str) -> list[str]:
    """What the row says, cell by cell."""
    cells: list[str] = page.locator(
        f"[data-role=machines-list] tr[data-machine={machine}] [data-cell]"
    ).all_inner_texts()
    return cells


def counted(page: Page) -> Any:
    return page.locator("[data-role=machines-counted]")


def test_what_becomes_of_members_is_shown_at_once(live_site: LiveSite, signed_in: Page, pooled: int) -> None:
    page = signed_in
    page.goto(f"{live_site.url}/runs/{pooled}/")
    expect(counted(page)).to_have_text("2 measuring, 1 checking")
    as_drawn = told(page, "pool-1")
    assert as_drawn == ["pool-1", "measuring", "", "30", "75.0\u00a0%", "0", "–"]
    live_site.manage(*SHELL, CHANGED.format(run=pooled))
    expect(counted(page)).to_have_text("1 measuring, 1 lost, 1 left out")
    assert told(page, "pool-1") == ["pool-1", "measuring", "", "60", "85.7\u00a0%", "0", "–"]
    lost = ["pool-2", "lost", "It stopped responding.", "10", "14.3\u00a0%", "0", "0.0\u00a0%"]
    assert told(page, "pool-2") == lost
    out = ["pool-3", "left out", "It differs by 12.0 %, beyond noise of 1.0 %.", "0", "0.0\u00a0%", "1", "+12.0\u00a0%"]
    assert told(page, "pool-3") == out
    page.reload()
    assert [told(page, name) for name in ("pool-2", "pool-3")] == [lost, out], "the server words it like the script"


def test_a_queued_run_gets_another_priority(live_site: LiveSite, signed_in: Page, pooled: int) -> None:
    page = signed_in
    page.goto(f"{live_site.url}/runs/{pooled}/")
    low, normal = (page.locator("[data-role=priority]").get_by_role("button", name=name) for name in ("Low", "Normal"))
    expect(normal).to_have_attribute("aria-pressed", "true")
    low.click()
    expect(low).to_have_attribute("aria-pressed", "true")
    _, run = live_site.api("GET", f"/runs/{pooled}", token=live_site.token())
    assert run["priority"] == "low"
    live_site.api("POST", f"/runs/{pooled}/priority", {"priority": "normal"}, token=live_site.token())
    expect(normal).to_have_attribute("aria-pressed", "true")
    live_site.api("POST", f"/runs/{pooled}/stop", token=live_site.token("admin"))
    expect(page.locator("[data-role=priority]")).to_be_hidden()
