"""Editing name and notes in a browser: in place, visible to others at once, never lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.live import LiveSite

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("without_charts")]
LONG_MS = 60_000
EVIL = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'> [link](javascript:window.hacked=1)"


def role(page: Page, name: str) -> Any:
    return page.locator(f"[data-role={name}]")


@pytest.fixture(scope="module", autouse=True)
def patience() -> Iterator[None]:
    """A busy machine is slow, which isn't the page's fault."""
    expect.set_options(timeout=LONG_MS)
    yield
    expect.set_options(timeout=5_000)


@pytest.fixture(scope="module")
def operator(live_site: LiveSite) -> str:
    """Another user's token."""
    return live_site.token()


@pytest.fixture(scope="module")
def unused(live_site: LiveSite) -> list[int]:
    """Runs that no test has used yet."""
    return [
        int(key) for key in live_site.manage("seed_trials", "--trials", "64", "--tasks", "2", "--runs", "9").split()
    ]


@pytest.fixture
def key(unused: list[int]) -> int:
    """A run of its own for each test."""
    return unused.pop()


@pytest.fixture
def opened(live_site: LiveSite, signed_in: Page, key: int) -> Page:
    """The run's page, connected to its socket."""
    signed_in.set_default_timeout(LONG_MS)
    with signed_in.expect_websocket() as opening:
        signed_in.goto(f"{live_site.url}/runs/{key}/")
    opening.value.wait_for_event("framereceived", timeout=LONG_MS)
    return signed_in


def stored(site: LiveSite, key: int, token: str) -> Any:
    status, run = site.api("GET", f"/runs/{key}", token=token)
    assert status == 200
    return run


def write(site: LiveSite, key: int, token: str, **values: str) -> None:
    """Somebody else edits the run."""
    status, answer = site.api(
        "PATCH", f"/runs/{key}", values | {"revision": stored(site, key, token)["revision"]}, token=token
    )
    assert status == 200, answer


def start_writing(page: Page) -> Any:
    role(page, "notes-edit").click()
    text = page.get_by_label("Notes in Markdown")
    expect(text).to_be_focused()
    return text


def test_notes_are_written_previewed_and_saved(live_site: LiveSite, opened: Page, key: int, operator: str) -> None:
    page = opened
    text = start_writing(page)
    notes = f"# Why\n\n| task | ms |\n| --- | --: |\n| conv2d | 1.5 |\n\n- [x] tuned\n\n```python\ndef f(): pass\n```\n\n{EVIL}"
    text.fill(notes)
    page.get_by_role("button", name="Preview").click()
    preview = role(page, "notes-preview")
    expect(preview.locator("td.r")).to_have_text("1.5")
    expect(preview.locator("pre .k").first).to_have_text("def")
    page.get_by_role("button", name="Write", exact=True).click()
    text.press("Control+Enter")
    shown = role(page, "notes-text")
    expect(shown.locator("h3")).to_have_text("Why")
    expect(shown.locator("input[type=checkbox]")).to_be_checked()
    expect(shown).to_contain_text("<script>window.hacked = 1</script>")
    expect(shown.locator("a, img, script")).to_have_count(0)
    expect(role(page, "notes-editor")).to_be_hidden()
    expect(role(page, "notes-edit")).to_be_focused()
    assert page.evaluate("window.hacked") is None
    assert stored(live_site, key, operator)["notes"] == notes


def test_others_see_name_and_notes_at_once(live_site: LiveSite, opened: Page, key: int, operator: str) -> None:
    write(live_site, key, operator, name="renamed elsewhere", notes="written *elsewhere*")
    expect(role(opened, "name")).to_have_text("renamed elsewhere")
    expect(role(opened, "notes-text").locator("em")).to_have_text("elsewhere")
    expect(opened).to_have_title("Done · renamed elsewhere · Tuneboard")


def test_on_an_edit_conflict_the_second_author_sees_both_texts(
    live_site: LiveSite, opened: Page, key: int, operator: str
) -> None:
    page = opened
    text = start_writing(page)
    text.fill("mine")
    write(live_site, key, operator, notes="theirs")
    expect(role(page, "notes-trouble")).to_contain_text("Save shows both")
    expect(text).to_have_value("mine")
    text.press("Control+Enter")
    expect(role(page, "notes-theirs-text")).to_have_value("theirs")
    expect(text).to_have_value("mine")
    assert stored(live_site, key, operator)["notes"] == "theirs"
    text.fill("mine and theirs")
    role(page, "notes-save").click()
    expect(role(page, "notes-text")).to_have_text("mine and theirs")
    assert stored(live_site, key, operator)["notes"] == "mine and theirs"


def test_renaming_does_not_conflict_with_editing_notes(
    live_site: LiveSite, opened: Page, key: int, operator: str
) -> None:
    page = opened
    text = start_writing(page)
    text.fill("mine")
    write(live_site, key, operator, name="another name")
    expect(role(page, "name")).to_have_text("another name")
    text.press("Control+Enter")
    expect(role(page, "notes-text")).to_have_text("mine")
    run = stored(live_site, key, operator)
    assert (run["name"], run["notes"], run["revision"]) == ("another name", "mine", 3)


def test_escape_asks_before_it_discards_notes(opened: Page) -> None:
    page = opened
    text = start_writing(page)
    text.fill("half a thought")
    text.press("Escape")
    expect(role(page, "notes-discard")).to_be_visible()
    role(page, "notes-keep").click()
    expect(text).to_have_value("half a thought")
    text.press("Escape")
    role(page, "notes-discard-confirm").click()
    expect(role(page, "notes-editor")).to_be_hidden()
    expect(role(page, "notes-text")).to_have_count(0)
    text = start_writing(page)
    text.press("Escape")
    expect(role(page, "notes-editor")).to_be_hidden()


def test_notes_that_are_too_long_cant_be_saved(opened: Page) -> None:
    text = start_writing(opened)
    text.fill("x" * 65_537)
    expect(role(opened, "notes-size")).to_contain_text("65,537 of 65,536 bytes: too long")
    expect(role(opened, "notes-save")).to_be_disabled()
    text.fill("x" * 65_536)
    expect(role(opened, "notes-save")).to_be_enabled()
    text.fill("")


def test_a_run_is_renamed_in_place(live_site: LiveSite, opened: Page, key: int, operator: str) -> None:
    page = opened
    before = role(page, "name").inner_text()
    role(page, "rename").click()
    name = page.get_by_label("Name of the run")
    expect(name).to_be_focused()
    name.fill("not this")
    name.press("Escape")
    expect(role(page, "name")).to_have_text(before)
    role(page, "rename").click()
    name.fill("")
    name.press("Enter")
    expect(role(page, "rename-trouble")).to_contain_text("one line of at most 200 characters")
    name.fill("a better name")
    name.press("Enter")
    expect(role(page, "name")).to_have_text("a better name")
    expect(role(page, "rename")).to_be_focused()
    assert stored(live_site, key, operator)["name"] == "a better name"


def test_notes_of_ten_megabytes_are_refused_with_their_limit(live_site: LiveSite, key: int, operator: str) -> None:
    status, answer = live_site.api("PATCH", f"/runs/{key}", {"revision": 1, "notes": "x" * 10_000_000}, token=operator)
    assert status == 413
    assert "64 KiB (65,536 bytes)" in answer["error"]["fields"]["notes"]
    assert stored(live_site, key, operator)["notes"] == ""
