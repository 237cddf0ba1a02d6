"""The launch form in a browser. No target gets as far as TVM here; tests/dashboard/views/test_options_page.py has those."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Locator, Page, Request, Route, expect

from tests.live import LiveSite

pytestmark = pytest.mark.browser
LONG_MS = 60_000
NO_TARGET = "Enter a target, or `this` for this machine's CPU."
SHOWN = NO_TARGET.replace("`", "")


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    """A busy machine is slow, which isn't the page's fault."""
    expect.set_options(timeout=LONG_MS)
    yield
    expect.set_options(timeout=5_000)


@pytest.fixture
def form(live_site: LiveSite, signed_in: Page) -> Page:
    signed_in.set_default_timeout(LONG_MS)
    signed_in.goto(f"{live_site.url}/runs/new/")
    return signed_in


def error(page: Page, field: str) -> Locator:
    return page.locator(f"[data-role=field-error][data-field='{field}']")


def asks_about(field: str, value: str) -> Callable[[Request], bool]:
    """Whether a request checks the form with this value."""
    part = f'name="{field}"\r\n\r\n{value}\r\n'
    return lambda request: request.url.endswith("/check/") and part in (request.post_data or "")


@pytest.mark.parametrize("kind", ["A tag", "JSON"])
def test_a_target_that_is_left_empty_is_refused(form: Page, kind: str) -> None:
    form.get_by_role("button", name=kind).click()
    target = form.locator("#id_target")
    target.fill('{"kind": "llvm"}' if kind == "JSON" else "llvm")
    target.fill("")
    expect(form.get_by_role("button", name=kind)).to_have_attribute("aria-pressed", "true")
    assert target.get_attribute("placeholder") is None
    form.get_by_role("button", name="Launch", exact=True).click()
    expect(form.locator("[data-role=form-errors]")).to_contain_text("Nothing was launched.")
    expect(error(form, "target")).to_have_text(SHOWN)
    expect(target).to_be_focused()
    expect(target).to_have_attribute("aria-invalid", "true")
    expect(form.get_by_role("button", name="This machine")).to_have_attribute("aria-pressed", "false")


def entered(page: Page, field: str, value: str) -> Locator:
    """The field, which is then left with the Tab key."""
    box = page.locator(f"[id='id_{field}']")
    box.fill(value)
    box.press("Tab")
    return box


def test_an_error_stands_beside_its_field_once_that_is_left(form: Page) -> None:
    form.get_by_role("button", name="A tag").click()
    target, trials = form.locator("#id_target"), form.locator("#id_trials")
    with form.expect_request_finished(asks_about("trials", "0")):
        trials.fill("0")
    expect(error(form, "target")).to_have_count(1)  # left for the number of trials
    expect(error(form, "trials")).to_have_count(0)
    trials.press("Tab")
    expect(error(form, "trials")).to_have_text("Must be a whole number from 1 to 1,000,000, not '0'.")
    expect(trials).to_have_attribute("aria-invalid", "true")
    expect(trials).to_have_accessible_description(re.compile("^Must be a whole number .* Candidates to build"))
    trials.fill("64")
    expect(error(form, "trials")).to_have_count(0)
    expect(trials).not_to_have_attribute("aria-invalid", "true")
    expect(trials).to_have_accessible_description(re.compile("^Candidates to build"))
    expect(error(form, "target")).to_have_text(SHOWN)
    target.press_sequentially("l")
    expect(error(form, "target")).to_have_count(0)


def test_a_late_answer_says_nothing_of_what_was_changed_meanwhile(form: Page) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    form.route("**/runs/new/check/", hold)
    target = form.locator("#id_target")
    with form.expect_request(asks_about("target", "")):
        form.get_by_role("button", name="A tag").click()
        target.press("Tab")
    target.press_sequentially("l")
    while not held:
        form.wait_for_timeout(20)
    with form.expect_response("**/runs/new/check/") as late:
        held[-1].fulfill(response=held[-1].fetch())
    assert late.value.json()["fields"] == {"target": NO_TARGET}
    form.evaluate("new Promise((done) => setTimeout(done, 200))")
    expect(error(form, "target")).to_have_count(0)


def test_a_field_that_was_not_left_is_not_scolded(form: Page) -> None:
    with form.expect_response("**/runs/new/check/") as checked:
        form.get_by_role("button", name="A tag").click()
    assert checked.value.json()["fields"] == {"target": NO_TARGET}
    expect(form.locator("#id_target")).to_be_focused()
    expect(form.locator("[data-role=field-error]")).to_have_count(0)
    form.get_by_role("button", name="JSON").click()
    expect(form.locator("[data-role=field-error]")).to_have_count(0)
    form.locator("#id_target").press("Tab")
    expect(error(form, "target")).to_have_text(SHOWN)


def test_errors_of_a_network_and_of_the_folded_part_are_shown_too(form: Page) -> None:
    form.get_by_role("button", name="A tag").click()
    entered(form, "network_options.mlp.batch", "0")
    expect(error(form, "network_options.mlp.batch")).to_contain_text("Must be a whole number")
    form.locator("[data-role=advanced] > summary").click()
    entered(form, "repeat", "0")
    expect(error(form, "repeat")).to_contain_text("Must be a whole number")
    form.get_by_label("Matrix product").check()
    expect(error(form, "network_options.mlp.batch")).to_have_count(0)
    expect(error(form, "repeat")).to_have_count(1)


def test_what_was_refused_is_told_until_it_is_corrected(form: Page) -> None:
    form.get_by_role("button", name="A tag").click()
    form.locator("#id_trials").fill("0")
    form.get_by_role("button", name="Launch", exact=True).click()
    told = form.locator("[data-role=form-errors]")
    expect(told).to_contain_text("2 fields need to be corrected.")
    entered(form, "trials", "8")
    expect(error(form, "trials")).to_have_count(0)
    expect(error(form, "target")).to_have_text(SHOWN)
    expect(told).to_be_visible()


def test_the_form_of_an_extraction_is_checked_likewise(live_site: LiveSite, form: Page) -> None:
    form.goto(f"{live_site.url}/networks/builtin/matmul/")
    form.locator("#id_target").fill("")
    entered(form, "n", "0")
    expect(error(form, "n")).to_contain_text("Must be a whole number")
    expect(error(form, "target")).to_have_text(SHOWN)
    entered(form, "n", "64")
    expect(error(form, "n")).to_have_count(0)


def test_enter_in_the_name_of_a_template_saves_instead_of_launching(form: Page) -> None:
    form.get_by_role("button", name="A tag").click()
    form.locator("[data-role=template] > summary").click()
    form.get_by_label("Name of the template").press("Enter")
    expect(form.locator("[data-role=form-errors]")).to_contain_text("Nothing was saved. 2 fields")
    expect(error(form, "template_name")).to_have_text("Must be one line of 1 to 60 characters.")
    form.locator("#id_trials").press("Enter")
    expect(form.locator("[data-role=form-errors]")).to_contain_text("Nothing was launched.")


def test_what_the_browser_cannot_read_as_a_number_is_not_sent_as_none(form: Page) -> None:
    """It would be sent as empty text, and mean the default."""
    trials = form.locator("#id_trials")
    trials.fill("")
    trials.press_sequentially("1e")
    form.get_by_role("button", name="Launch", exact=True).click()
    expect(error(form, "trials")).to_have_text("Must be a number.")
    expect(trials).to_be_focused()
    expect(form.locator("[data-role=form-errors]")).to_have_count(0)
    expect(form.get_by_role("button", name="Launch", exact=True)).to_be_enabled()


@pytest.mark.parametrize("width", [1440, 390])
def test_a_network_is_chosen_by_pressing_anywhere_on_its_label(form: Page, width: int) -> None:
    form.set_viewport_size({"width": width, "height": 900})
    form.locator("[data-role=advanced] > summary").click()
    for button in form.get_by_role("radio").all():
        pressed, around = button.bounding_box(), button.locator("xpath=..").bounding_box()
        assert pressed
        assert around
        assert pressed["height"] >= 24
        assert (pressed["width"], pressed["height"]) == pytest.approx((around["width"], around["height"]), abs=2)
    form.get_by_text("Matrix product", exact=True).click()
    expect(form.get_by_role("radio", name="Matrix product")).to_be_checked()
    expect(form.locator("[id='id_network_options.matmul.n']")).to_be_visible()
