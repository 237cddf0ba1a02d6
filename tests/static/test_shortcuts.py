"""Keyboard shortcuts in a browser: each does what the overlay says, and none interferes with typing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.live import LiveSite

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("without_charts")]
LONG_MS = 60_000
SEED = """
import json
from django.utils import timezone
from tests.heartbeats import keep_alive
from tests.world import make_network, measured_run
from tuning.models import Run
Run.objects.filter(device__startswith="key-").update(status="stopped")
runs = [measured_run(name=f"of the keys {n}", device=f"key-{n}") for n in range(3)]
keep_alive(runs[0])
Run.objects.filter(pk__in=[run.pk for run in runs[1:]]).update(status="finished", finished_at=timezone.now())
print(json.dumps([run.pk for run in runs]))
"""
"""Three runs, of which the first is running."""


@pytest.fixture
def runs(live_site: LiveSite, signed_in: Page) -> list[int]:
    keys: list[int] = json.loads(live_site.manage("shell", "-v", "0", "--no-imports", "-c", SEED))
    return keys


@pytest.fixture
def machines(live_site: LiveSite) -> Iterator[None]:
    """Another one: a list of one machine has no search."""
    other = "from tuning.models import Machine; from tests.world import make_machine; "
    live_site.manage("shell", "-v", "0", "--no-imports", "-c", f"{other}make_machine('of-the-keys')")
    yield
    live_site.manage(
        "shell", "-v", "0", "--no-imports", "-c", f"{other}Machine.objects.filter(name='of-the-keys').delete()"
    )


def role(page: Page, name: str) -> Any:
    return page.locator(f"[data-role={name}]")


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def count_clicks(page: Page) -> None:
    """From now on. What a shortcut does begins with a click before `press` returns, while a navigation takes longer."""
    page.evaluate("window.clicks = 0; addEventListener('click', () => { window.clicks += 1; }, true)")


def clicks(page: Page) -> int:
    counted: int = page.evaluate("window.clicks")
    return counted


def listed(page: Page) -> dict[str, str]:
    """The keys of each action in the overlay."""
    rows: list[tuple[str, str]] = role(page, "shortcut-list").evaluate(
        "list => [...list.querySelectorAll('dl > div')].map(row => [row.children[1].textContent, row.children[0].textContent])"
    )
    return dict(rows)


def test_the_overlay_lists_the_shortcuts_of_the_page(live_site: LiveSite, signed_in: Page, runs: list[int]) -> None:
    page, overlay = signed_in, role(signed_in, "shortcuts")
    page.goto(f"{live_site.url}/runs/{runs[0]}/")
    press(page, "?")
    expect(overlay).to_be_visible()
    here = listed(page)
    assert here["Stop the run (asks first)"] == "s"
    assert here["Runs"] == "g then r"
    assert here["Next row"] == "j or ↓"
    assert "Search or filter" not in here
    press(page, "?")
    expect(overlay).to_be_hidden()

    page.goto(f"{live_site.url}/runs/{runs[1]}/")
    press(page, "?")
    assert "Stop the run (asks first)" not in listed(page), "it has ended"
    press(page, "Escape")
    expect(overlay).to_be_hidden()

    page.goto(f"{live_site.url}/runs/")
    role(page, "help").click()
    assert listed(page)["Search or filter"] == "/"
    assert "Extend the run" not in listed(page)


def test_key_sequences_open_pages(live_site: LiveSite, signed_in: Page) -> None:
    page = signed_in
    page.goto(f"{live_site.url}/runs/")
    for keys, path in (("gn", "networks"), ("gb", "library"), ("gm", "machines"), ("gr", "runs"), ("n", "runs/new")):
        press(page, *keys)
        page.wait_for_url(f"{live_site.url}/{path}/")
    count_clicks(page)
    press(page, "g", "x", "r")
    assert clicks(page) == 0, "r must come right after g"
    press(page, "g", "r")
    page.wait_for_url(f"{live_site.url}/runs/")


def test_keys_move_through_rows_select_compare_and_open_them(
    live_site: LiveSite, signed_in: Page, runs: list[int]
) -> None:
    page = signed_in
    page.goto(f"{live_site.url}/runs/?q=of+the+keys")
    press(page, "ArrowDown")
    expect(page.locator("[data-row]:focus-within")).to_have_count(0)
    press(page, "j")
    expect(page.locator(f"tr[data-run='{runs[2]}'] a").first).to_be_focused()
    press(page, "x", "ArrowDown", "j", "k", "x")
    expect(page.locator(f"tr[data-run='{runs[1]}'] a").first).to_be_focused()
    for key, ticked in zip(runs, (False, True, True), strict=True):
        expect(page.locator(f"#select-{key}")).to_be_checked(checked=ticked)
    press(page, "c")
    page.wait_for_url(re.compile(rf"/compare/\?runs={runs[1]},{runs[2]}$"))

    press(page, "u")
    page.wait_for_url(f"{live_site.url}/runs/")
    page.goto(f"{live_site.url}/runs/?q=of+the+keys")
    press(page, "j", "j", "Enter")
    page.wait_for_url(f"{live_site.url}/runs/{runs[1]}/")


def test_shortcuts_leave_typing_and_browser_keys_alone(live_site: LiveSite, signed_in: Page) -> None:
    page = signed_in
    page.goto(f"{live_site.url}/networks/")
    name = page.get_by_label("Name")
    name.fill("")
    name.press_sequentially("gr?t")
    expect(name).to_have_value("gr?t")
    page.locator("h1").click()
    count_clicks(page)
    press(page, "Control+a", "Alt+n", "Meta+t")
    assert clicks(page) == 0
    expect(role(page, "shortcuts")).to_be_hidden()
    assert page.evaluate("document.documentElement.dataset.theme") is None


def test_slash_focuses_the_search(live_site: LiveSite, signed_in: Page, runs: list[int]) -> None:
    signed_in.goto(f"{live_site.url}/runs/")
    press(signed_in, "/")
    expect(role(signed_in, "search")).to_be_focused()
    signed_in.keyboard.type("of the keys 1")
    expect(signed_in.locator("[data-row]").filter(has_not_text="of the keys 1")).to_have_count(0)
    expect(signed_in.locator(f"tr[data-run='{runs[1]}']")).to_be_visible()


def test_stopping_a_run_asks_first(live_site: LiveSite, signed_in: Page, runs: list[int]) -> None:
    page = signed_in
    page.goto(f"{live_site.url}/runs/{runs[0]}/")
    press(page, "s")
    expect(role(page, "stop-dialog")).to_be_visible()
    press(page, "g", "n")
    press(page, "Escape")
    expect(role(page, "stop-dialog")).to_be_hidden()
    expect(role(page, "status")).to_have_text("running")
    assert page.url.endswith(f"/runs/{runs[0]}/"), "shortcuts are off while a dialog is open"
    press(page, "s")
    role(page, "stop-confirm").click()
    expect(role(page, "status")).to_have_text("stopping", timeout=LONG_MS)


def test_keys_can_be_turned_off(live_site: LiveSite, signed_in: Page) -> None:
    page = signed_in
    page.goto(f"{live_site.url}/runs/")
    press(page, "?")
    page.get_by_label("Enable keyboard shortcuts outside text fields").uncheck()
    page.get_by_role("button", name="Close").click()
    press(page, "g", "n", "?")
    expect(role(page, "shortcuts")).to_be_hidden()
    page.goto(f"{live_site.url}/library/")
    press(page, "?")
    expect(role(page, "shortcuts")).to_be_hidden()
    role(page, "help").click()
    page.get_by_label("Enable keyboard shortcuts outside text fields").check()
    page.get_by_role("button", name="Close").click()
    press(page, "g", "n")
    page.wait_for_url(f"{live_site.url}/networks/")


def test_a_key_cycles_through_themes(live_site: LiveSite, signed_in: Page) -> None:
    page = signed_in
    page.goto(f"{live_site.url}/networks/")
    for theme in ("light", "dark", None):
        press(page, "t")
        assert page.evaluate("document.documentElement.dataset.theme ?? null") == theme
    press(page, "t", "t")
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(14, 17, 22)"
    role(page, "display").click()
    expect(page.get_by_role("button", name="Dark")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="System").click()
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme ?? null") is None


@pytest.mark.parametrize("path", ["/runs/", "/runs/{run}/trials/", "/library/", "/machines/", "/admin/audit/"])
def test_escape_leaves_a_search_field_and_keeps_what_was_typed(
    live_site: LiveSite, signed_in: Page, runs: list[int], machines: None, path: str
) -> None:
    page = signed_in
    page.goto(live_site.url + path.format(run=runs[0]))
    press(page, "/")
    field = page.locator("[data-role=search], [role=search] :is(select, input)").first
    expect(field).to_be_focused()
    boxes = page.locator("[role=search] :is(input[type=search], input:not([type]))")
    for box in boxes.all():
        box.fill("x")
        press(page, "Escape")
        expect(box).not_to_be_focused()
        expect(box).to_have_value("x")
    press(page, "?")
    assert listed(page)["Leave the search field"] == "Esc"
