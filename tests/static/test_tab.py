"""Background tabs: progress and number of runs in the title, and notifications when a run ends."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

import pytest
from playwright.sync_api import Page, expect

from tests.live import LiveSite

pytestmark = pytest.mark.browser
LONG_MS = 60_000
BACKGROUND = """
    Object.defineProperty(document, "hidden", {get: () => window.away ?? true});
    window.frames_due = [];
    window.requestAnimationFrame = (step) => (document.hidden ? frames_due.push(step) : setTimeout(step));
    window.told = [];
    window.Notification = class extends EventTarget {
        static permission = "default";
        static async requestPermission() { return Notification.permission = window.answer ?? "granted"; }
        constructor(title, options) { super(); window.told.push({title, ...options, one: this}); }
        close() { this.closed = true; }
    };
"""
"""Simulates a background tab, which headless browsers don't have: hidden and without frames. Records notifications."""
BEGIN = """
from tests.heartbeats import keep_alive
from tests.world import make_compilation, measured_run, record_trials
from tuning.notify.announce import announce, announce_compilation, announce_status
from tuning.models import Compilation, Run
Run.objects.filter(device="in a tab").exclude(pk={key}).update(status="stopped")
"""
NEW = """
run = measured_run(name="watched", device="in a tab", trials_budget=10)
keep_alive(run)
print(run.pk)
"""
MANY = "Run.objects.filter(pk={key}).update(trials_budget=10_000); run = Run.objects.get(pk={key}); announce(run.pk, record_trials(run, [(0, 5e-4)] * {count}))"
DRAWN = "document.querySelector('[data-role=chart-allocation]').data[0].x"
SEEN = """
    window.away = false;
    document.addEventListener("drawn", ({detail}) => { window.drawn = detail.last; });
    frames_due.splice(0).forEach((step) => setTimeout(step));
"""
MORE = "run = Run.objects.get(pk={key}); announce(run.pk, record_trials(run, [(0, 5e-4), (1, None)]))"
END = 'Run.objects.filter(pk={key}).update(status="{status}", error={error!r}); announce_status(Run.objects.get(pk={key}))'


def shell(site: LiveSite, code: str, **values: Any) -> str:
    return site.manage("shell", "-v", "0", "--no-imports", "-c", (BEGIN + code).format(**{"key": 0} | values)).strip()


def role(page: Page, name: str) -> Any:
    return page.locator(f"[data-role={name}]")


def icon(page: Page) -> str:
    return unquote(page.locator("link[rel=icon]").get_attribute("href") or "")


@pytest.fixture
def watched(live_site: LiveSite, signed_in: Page) -> tuple[Page, str]:
    """The page of a running run in a background tab, with the run's key."""
    key = shell(live_site, NEW)
    signed_in.add_init_script(BACKGROUND)
    signed_in.goto(f"{live_site.url}/runs/{key}/")
    expect(signed_in).to_have_title("30% · watched · Tuneboard", timeout=LONG_MS)
    return signed_in, key


def test_title_and_icon_follow_a_run_to_its_end(live_site: LiveSite, watched: tuple[Page, str]) -> None:
    page, key = watched
    assert 'stroke-dasharray="30 100"' in icon(page)
    shell(live_site, MORE, key=key)
    expect(page).to_have_title("50% · watched · Tuneboard", timeout=LONG_MS)
    assert 'stroke-dasharray="50 100"' in icon(page)
    running = icon(page)
    shell(live_site, END, key=key, status="failed", error="Out of memory.")
    expect(page).to_have_title("Failed · watched · Tuneboard", timeout=LONG_MS)
    assert icon(page) != running
    page.goto(f"{live_site.url}/runs/{key}/tasks/0/")
    expect(page).to_have_title("Failed · Task 0 of watched · Tuneboard", timeout=LONG_MS)


@pytest.mark.rare
def test_trials_missed_by_a_hidden_tab_are_drawn_thinned_when_it_is_shown(
    live_site: LiveSite, watched: tuple[Page, str]
) -> None:
    page, key = watched
    before = page.evaluate(f"{DRAWN}.length")
    done = 0
    for _ in range(3):
        shell(live_site, MANY, key=key, count=2500)
        done = live_site.api("GET", f"/runs/{key}", token=live_site.token())[1]["trials_done"]
        expect(page).to_have_title(f"{done // 100}% · watched · Tuneboard", timeout=LONG_MS)
    assert page.evaluate(f"{DRAWN}.length") == before
    page.evaluate(SEEN)
    page.wait_for_function("done => window.drawn === done", arg=done, timeout=LONG_MS, polling=100)
    assert page.evaluate(f"[{DRAWN}.at(-1), {DRAWN}.length < 2500]") == [done, True]


def test_a_user_who_asked_for_it_is_notified_of_the_end(live_site: LiveSite, watched: tuple[Page, str]) -> None:
    page, key = watched
    bell = role(page, "notify")
    expect(bell).to_have_text("Notify me")
    bell.click()
    expect(bell).to_have_text("Will notify")
    expect(bell).to_have_attribute("aria-pressed", "true")
    shell(live_site, END, key=key, status="failed", error="Out of memory.\nTraceback")
    page.wait_for_function("() => told.length", timeout=LONG_MS, polling=100)
    assert page.evaluate("told.map(({title, body, tag}) => [title, body, tag])") == [
        ["watched: failed", "Out of memory.\n3 of 10 trials, estimated latency 7.000\u00a0ms", f"/runs/{key}/"]
    ]
    page.evaluate("window.focus = () => { window.focused = true; }; told[0].one.dispatchEvent(new Event('click'))")
    assert page.evaluate("[window.focused, told[0].one.closed]") == [True, True]
    expect(bell).to_be_hidden()


def test_no_notification_without_asking_or_while_looking(live_site: LiveSite, watched: tuple[Page, str]) -> None:
    page, key = watched
    shell(live_site, END, key=key, status="stopped", error=None)
    expect(page).to_have_title("Stopped · watched · Tuneboard", timeout=LONG_MS)
    assert page.evaluate("told.length") == 0
    page.evaluate("localStorage.setItem('notify', 'on'); Notification.permission = 'granted'")
    shell(live_site, END, key=key, status="queued", error=None)
    expect(page).to_have_title("Queued · watched · Tuneboard", timeout=LONG_MS)
    page.evaluate("dispatchEvent(new Event('focus'))")
    expect(role(page, "notify")).to_have_text("Will notify")
    page.evaluate("window.away = false; document.hasFocus = () => true")
    shell(live_site, END, key=key, status="finished", error=None)
    expect(page).to_have_title("Done · watched · Tuneboard", timeout=LONG_MS)
    assert page.evaluate("told.length") == 0


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        ("window.Notification.permission = 'denied'", "Notifications blocked"),
        ("delete window.Notification", "No notifications"),
        (
            "Object.defineProperty(navigator, 'userAgent', {get: () => 'Mozilla/5.0 (Linux; Android 16)'})",
            "No notifications",
        ),
    ],
)
def test_the_button_says_why_notifications_are_unsupported(
    live_site: LiveSite, signed_in: Page, prepare: str, words: str
) -> None:
    key = shell(live_site, NEW)
    signed_in.add_init_script(BACKGROUND + prepare)
    signed_in.goto(f"{live_site.url}/runs/{key}/")
    bell = role(signed_in, "notify")
    expect(bell).to_have_text(words)
    expect(bell).to_have_attribute("aria-disabled", "true")
    bell.click(force=True)
    expect(bell).to_have_attribute("aria-pressed", "false")


def test_a_user_who_refused_is_told_how_to_allow_notifications(live_site: LiveSite, watched: tuple[Page, str]) -> None:
    page, _ = watched
    page.evaluate("window.answer = 'denied'")
    role(page, "notify").click()
    expect(role(page, "notify")).to_have_text("Notifications blocked")
    expect(role(page, "notify")).to_have_attribute("title", re.compile("settings"))


def test_the_title_of_the_list_counts_running_runs(live_site: LiveSite, watched: tuple[Page, str]) -> None:
    page, key = watched
    # The title counts all runs, including those that earlier tests left behind.
    shell(live_site, "Run.objects.live().exclude(device='in a tab').update(status='stopped')", key=key)
    page.goto(f"{live_site.url}/runs/?q=watched")
    _, running = live_site.api("GET", "/runs?status=running", token=live_site.token())
    expect(page).to_have_title(f"({len(running['items'])}) Runs · Tuneboard")
    assert icon(page).startswith("data:image/svg+xml,")
    shell(live_site, "Run.objects.filter(device='in a tab').update(status='stopped')", key=key)
    page.reload()
    expect(page).to_have_title("Runs · Tuneboard")
    assert icon(page).endswith(".svg")


def test_a_compilation_shows_its_progress_in_the_tab(live_site: LiveSite, watched: tuple[Page, str]) -> None:
    page, key = watched
    built = "verified max_abs_error max_rel_error tolerance finished_at sha256 size"
    code = """run = Run.objects.get(pk={key}); Run.objects.filter(pk={key}).update(status="finished")
one = make_compilation(run, **dict.fromkeys("{built}".split()), status="running", stage="build", progress=0.25, lease="x",
    used=[], untuned=[])
keep_alive(one)
print(one.pk)"""
    made = shell(live_site, code, key=key, built=built)
    page.goto(f"{live_site.url}/compilations/{made}/")
    expect(page).to_have_title(f"25% · Compilation {made} of mlp · Tuneboard", timeout=LONG_MS)
    role(page, "notify").click()
    end = "Compilation.objects.filter(pk={made}).update(status='failed', error='No linker.'); announce_compilation({made})"
    shell(live_site, end, key=key, made=made)
    expect(page).to_have_title(f"Failed · Compilation {made} of mlp · Tuneboard", timeout=LONG_MS)
    assert page.evaluate("told.map(({title, body}) => [title, body])") == [
        [f"Compilation {made} of mlp: failed", "No linker."]
    ]
