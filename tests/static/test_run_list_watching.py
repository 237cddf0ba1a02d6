"""The list of runs in a browser: search, sorting and bulk actions without leaving the page."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.live import LiveSite

pytestmark = pytest.mark.browser


def role(page: Page, name: str) -> Any:
    return page.locator(f"[data-role={name}]")


@pytest.fixture
def runs(live_site: LiveSite) -> list[int]:
    """Three finished runs, newest first."""
    said = live_site.manage("seed_trials", "--trials", "40", "--tasks", "2", "--runs", "3")
    return [int(key) for key in said.split()][::-1]


def row(page: Page, key: int) -> Any:
    return page.locator(f"tr[data-run='{key}']")


def test_a_search_keeps_the_focus_and_is_in_the_address(live_site: LiveSite, signed_in: Page, runs: list[int]) -> None:
    page = signed_in
    page.goto(f"{live_site.url}/runs/")
    role(page, "search").press_sequentially("nowhere")
    expect(page.get_by_text("No run matches")).to_be_visible()
    expect(role(page, "search")).to_be_focused()
    assert page.url.endswith("/runs/?q=nowhere")
    page.locator("#show-all").click()
    page.locator("#by-name").click()
    page.wait_for_url(re.compile(r"\?order=name$"))
    expect(page.locator("#by-name")).to_be_focused()
    role(page, "filter-show").select_option("archived")
    page.wait_for_url(re.compile(r"show=archived&order=name$"))
    page.go_back()
    expect(page.locator("th[aria-sort=ascending]")).to_have_text("Run")


@pytest.mark.both_databases
def test_selected_runs_are_tagged_deleted_and_restored(live_site: LiveSite, signed_in: Page, runs: list[int]) -> None:
    page, (first, second, third) = signed_in, runs
    page.goto(f"{live_site.url}/runs/")
    expect(role(page, "bulk")).to_be_hidden()
    page.locator(f"#select-{first}").focus()
    page.keyboard.press("Space")
    expect(role(page, "chosen-says")).to_have_text("Compare takes 2 to 8.")
    page.locator(f"#select-{second}").check()
    expect(role(page, "chosen-count")).to_have_text("2 runs selected")
    page.get_by_label("Tags to add or remove").fill("good")
    page.keyboard.press("Enter")
    expect(role(page, "told")).to_contain_text("Tagged 2 runs.")
    expect(row(page, first).locator(".tag.own")).to_have_text("good")
    expect(role(page, "chosen-count")).to_have_text("2 runs selected")
    role(page, "bulk").get_by_role("button", name="Delete").click()
    expect(row(page, first)).to_have_count(0)
    expect(row(page, third)).to_be_visible()
    expect(role(page, "bulk")).to_be_hidden()
    expect(role(page, "undo")).to_be_focused()
    page.keyboard.press("Enter")
    expect(row(page, first)).to_be_visible()
    expect(row(page, second)).to_be_visible()
    assert page.url == f"{live_site.url}/runs/"


def test_columns_are_hidden_and_stay_so(live_site: LiveSite, signed_in: Page, runs: list[int]) -> None:
    page = signed_in
    page.goto(f"{live_site.url}/runs/")
    cell = row(page, runs[0]).locator("[data-column=duration]")
    expect(cell).to_be_visible()
    role(page, "columns-menu").locator("summary").click()
    page.get_by_label("Duration").uncheck()
    expect(cell).to_be_hidden()
    page.reload()
    expect(row(page, runs[0]).locator("[data-column=measured]")).to_be_visible()
    expect(cell).to_be_hidden()
    role(page, "columns-menu").locator("summary").click()
    page.get_by_label("Duration").check()
    expect(cell).to_be_visible()


def test_enter_adds_the_tag_even_with_an_undo_button(live_site: LiveSite, signed_in: Page, runs: list[int]) -> None:
    page, (first, second, _) = signed_in, runs
    page.goto(f"{live_site.url}/runs/")
    page.locator(f"#select-{first}").check()
    role(page, "bulk").get_by_role("button", name="Archive").click()
    expect(role(page, "undo")).to_be_focused()
    page.locator(f"#select-{second}").check()
    page.get_by_label("Tags to add or remove").fill("good")
    page.keyboard.press("Enter")
    expect(row(page, second).locator(".tag.own")).to_have_text("good")
    expect(row(page, first)).to_have_count(0)


def test_a_tag_that_is_refused_can_be_corrected(live_site: LiveSite, signed_in: Page, runs: list[int]) -> None:
    page, (first, *_) = signed_in, runs
    page.goto(f"{live_site.url}/runs/")
    page.locator(f"#select-{first}").check()
    many = page.get_by_label("Tags to add or remove")
    many.fill("good -bad")
    page.keyboard.press("Enter")
    expect(role(page, "told")).to_contain_text("'-bad' is not a tag")
    expect(many).to_have_value("good -bad")
    page.goto(f"{live_site.url}/runs/{first}/")
    role(page, "add-tag").fill("good -bad")
    page.keyboard.press("Enter")
    expect(role(page, "add-tag")).to_have_accessible_description(re.compile("'-bad' is not a tag"))
    expect(role(page, "add-tag")).to_have_value("good -bad")
    expect(role(page, "add-tag")).to_be_focused()
    role(page, "add-tag").fill("good bad")
    page.keyboard.press("Enter")
    expect(role(page, "tag")).to_have_text(["bad", "good"])
    expect(role(page, "add-tag")).to_have_value("")


def test_a_run_is_tagged_and_pinned_without_reloading_its_page(
    live_site: LiveSite, signed_in: Page, runs: list[int]
) -> None:
    page = signed_in
    page.goto(f"{live_site.url}/runs/{runs[0]}/")
    page.evaluate("window.same = true")
    role(page, "add-tag").fill("one two")
    page.keyboard.press("Enter")
    expect(role(page, "tag")).to_have_text(["one", "two"])
    expect(role(page, "add-tag")).to_be_focused()
    page.get_by_label("Remove the tag one").click()
    expect(role(page, "tag")).to_have_text(["two"])
    role(page, "add-tag").fill("three")
    page.keyboard.press("Enter")
    expect(role(page, "tag")).to_have_text(["three", "two"])
    role(page, "pin").click()
    expect(role(page, "pin")).to_have_text("Unpin")
    expect(role(page, "pin")).to_be_focused()
    assert page.evaluate("window.same") is True
    role(page, "delete").click()
    page.wait_for_url(f"{live_site.url}/runs/")
    expect(row(page, runs[0])).to_have_count(0)
    role(page, "undo").click()
    expect(row(page, runs[0])).to_be_visible()
    expect(role(page, "message")).to_have_text("Restored run " + str(runs[0]) + ".")


def test_a_form_that_was_just_swapped_in_can_be_sent_at_once(
    live_site: LiveSite, signed_in: Page, runs: list[int]
) -> None:
    page = signed_in
    page.goto(f"{live_site.url}/runs/{runs[0]}/")
    page.evaluate("""() => {
        window.same = true;
        const pin = () => document.getElementById("curation").requestSubmit(document.getElementById("pin"));
        addEventListener("htmx:afterSwap", function swapped({ detail }) {
            if (detail.requestConfig.verb !== "post") return;
            removeEventListener("htmx:afterSwap", swapped);
            setTimeout(pin);
        });
    }""")
    role(page, "add-tag").fill("one")
    page.keyboard.press("Enter")
    expect(role(page, "pin")).to_have_text("Unpin")
    assert page.evaluate("window.same") is True


def test_filters_are_collapsed_on_a_phone(live_site: LiveSite, signed_in: Page, runs: list[int]) -> None:
    page = signed_in
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(f"{live_site.url}/runs/")
    expect(role(page, "filter-network")).to_be_hidden()
    role(page, "filters-toggle").click()
    expect(role(page, "filter-network")).to_be_visible()
    expect(role(page, "filters-toggle")).to_have_attribute("aria-expanded", "true")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
