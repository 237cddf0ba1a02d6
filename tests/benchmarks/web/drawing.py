"""How long a browser takes to draw a run's page, and the new trials of a run that it watches."""

from __future__ import annotations

import time
from bisect import bisect_left
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.benchmarks.engine.sides import Broken

from . import chromium
from .questions import Answers, Asker
from .site import Site
from .watching import line, recorder, tell

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

MARK = "first-chart"
"""The performance mark that static/js/run/curves.js sets when the first chart has been painted."""
DRAWN = "Done"
"""The title of a finished run's page starts with this once charts are drawn and the socket has sent the state."""
PACE_S = 0.1
"""The interval at which the supervisor passes on new trials."""
PATIENCE_MS = chromium.PATIENCE_S * 1e3
SETTLE_MS = 1000
"""By then, a socket has received the initial state."""
COUNTED = """name => ({
  ms: performance.getEntriesByName(name)[0].startTime,
  bytes: [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
    .reduce((sum, one) => sum + one.transferSize, 0),
})"""
"""Milliseconds since the HTML was requested, and bytes transferred so far."""
WATCH = """() => {
  window.frames_drawn = [];
  document.addEventListener("drawn", ({ detail }) => requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => window.frames_drawn.push([detail.last, Date.now() / 1000]);
    port2.postMessage(null);
  }));
}"""
"""A frame is painted after its animation callbacks and before the next message is handled."""


class Frame(NamedTuple):
    """The number of a frame's last trial, and when it had been painted, in seconds since 1970."""

    last: int
    at: float


def page_loads(browser: Browser, site: Site, run: int, times: int) -> list[Answers]:
    """From the request for the run page until its first chart is painted: with an empty cache, a second and a third time.

    Browsers keep compiled scripts from the third visit on. `size` is the number of bytes transferred.
    """
    visits = [Answers(name, [], 0) for name in ("cold", "warm", "third")]
    for _ in range(times):
        with chromium.unattended(browser.browser_type) as visitor:
            visitor.add_cookies(_cookies(site))
            time.sleep(SETTLE_MS / 1e3)
            for answers in visits:
                told = visitor.load(f"{site.url}/runs/{run}/", DRAWN, COUNTED, MARK)
                answers.ms.append(told["ms"])
                answers.size = max(answers.size, told["bytes"])
    return visits


def live(browser: Browser, site: Site, trials: int, a_second: int) -> Answers:
    """From the measurement of each trial, `a_second` per second, to the frame that shows it.

    That includes the supervisor's interval, recording, announcing, forwarding and drawing. Raises `Broken`.
    """
    batch = max(1, round(a_second * PACE_S))
    with recorder(site, trials, batch, PACE_S, spread=True) as process, closing(_visitor(browser, site)) as visitor:
        run = int(line(process))
        page = visitor.new_page()
        with page.expect_websocket(timeout=PATIENCE_MS):
            _load(page, site, run)
        page.evaluate(WATCH)
        page.wait_for_timeout(SETTLE_MS)
        tell(process)
        frames = _frames(page, trials)
        with closing(Asker(site)) as asker:
            measured = asker.columns(run, "number", "at_s")
        line(process)
        tell(process)
    return Answers("measured to drawn", delays(frames, measured), 0)


def delays(frames: list[Frame], measured: list[tuple[int, float]]) -> list[float]:
    """Milliseconds from each measured trial (number, seconds since 1970) to the first frame that has it. Frames are ordered."""
    lasts = [frame.last for frame in frames]
    return [(frames[bisect_left(lasts, number)].at - at) * 1e3 for number, at in measured]


def _visitor(browser: Browser, site: Site) -> BrowserContext:
    """A signed-in context with a fresh profile."""
    visitor = browser.new_context(viewport=chromium.WINDOW)  # type: ignore[arg-type]  # a dict of ints is one
    visitor.add_cookies(_cookies(site))
    return visitor


def _cookies(site: Site) -> list[Any]:
    cookies = (pair.split("=", 1) for pair in site.cookie.split("; "))
    return [{"name": name, "value": value, "url": site.url} for name, value in cookies]


def _load(page: Page, site: Site, run: int) -> None:
    page.goto("about:blank")
    page.goto(f"{site.url}/runs/{run}/", wait_until="commit")
    page.wait_for_function(
        "name => performance.getEntriesByName(name).length",
        arg=MARK,
        polling=chromium.EACH_S * 1e3,
        timeout=PATIENCE_MS,
    )


def _frames(page: Page, trials: int) -> list[Frame]:
    deadline = time.monotonic() + PATIENCE_MS / 1e3
    while time.monotonic() < deadline:
        page.wait_for_timeout(1000)
        frames = [Frame(*each) for each in page.evaluate("window.frames_drawn")]
        if frames and frames[-1].last >= trials:
            return frames
    raise Broken(f"The run's page didn't draw trial {trials}.")
