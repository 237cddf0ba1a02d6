"""The launch form in a browser. No target gets as far as TVM here; tests/dashboard/views/test_options_page.py has those."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.live import LiveSite

pytestmark = pytest.mark.browser
LONG_MS = 60_000
NO_TARGET = "Enter a target, or `this` for this machine's CPU."


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
    expect(error(form, "target")).to_have_text(NO_TARGET)
    expect(target).to_be_focused()
    expect(target).to_have_attribute("aria-invalid", "true")
    expect(form.get_by_role("button", name="This machine")).to_have_attribute("aria-pressed", "false")
