"""Headless Chromium, driven by Playwright (from the tests' requirements)."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.benchmarks.engine.sides import Broken

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserType

ARGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


WINDOW = {"width": 1440, "height": 900}
PATIENCE_S = 120.0
EACH_S = 0.1
"""Between two polls: they must not disturb what is measured."""


class NoBrowser(Exception):
    """Its text says what isn't installed."""


def executable() -> str:
    """The path of Debian's Chromium. Raises `NoBrowser`."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        raise NoBrowser("there is no `chromium` on PATH; on Debian: apt-get install chromium")
    return path


@contextmanager
def browser(*more: str) -> Iterator[Browser]:
    """A browser without contexts, started with more arguments. Raises `NoBrowser`.

    Playwright keeps an event loop in this thread meanwhile.
    """
    path = executable()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as missing:
        raise NoBrowser("playwright (tests/requirements.txt) isn't installed") from missing
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=[*ARGS, *more])
        try:
            yield started
        finally:
            started.close()


class Unattended:
    """A browser with a fresh profile and no debugger attached while it loads a page.

    With a debugger such as Playwright, V8 computes the source position of every exception that scripts throw and catch,
    which makes it read Plotly's bundle three more times.
    """

    def __init__(self, kind: BrowserType, port: int) -> None:
        self._kind = kind
        self._url = f"http://127.0.0.1:{port}"

    def add_cookies(self, cookies: list[Any]) -> None:
        """Sets these cookies."""
        with closing(self._kind.connect_over_cdp(self._url)) as attached:
            attached.contexts[0].add_cookies(cookies)

    def load(self, url: str, title: str, expression: str, arg: Any) -> Any:
        """Opens the page, waits until its title starts with `title`, then evaluates the expression. Raises `Broken`."""
        target = self._ask(f"new?{urllib.parse.quote(url, safe='')}", "PUT")["id"]
        self._wait_for_title(target, title)
        with closing(self._kind.connect_over_cdp(self._url)) as attached:
            (page,) = (page for page in attached.contexts[0].pages if page.url == url)
            told = page.evaluate(expression, arg)
            page.close()
        return told

    def _wait_for_title(self, target: str, title: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not any(one["id"] == target and one["title"].startswith(title) for one in self._ask("list")):
            if time.monotonic() > deadline:
                raise Broken(f"The browser's title didn't become {title} within {PATIENCE_S:.0f} s.")
            time.sleep(EACH_S)

    def _ask(self, path: str, method: str = "GET") -> Any:
        request = urllib.request.Request(f"{self._url}/json/{path}", method=method)
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)


@contextmanager
def unattended(kind: BrowserType) -> Iterator[Unattended]:
    """A browser with an empty cache. Raises `Broken`."""
    with tempfile.TemporaryDirectory(prefix="tuneboard-chromium-", ignore_cleanup_errors=True) as profile:
        size = "--window-size={width},{height}".format(**WINDOW)
        own = ["--remote-debugging-port=0", f"--user-data-dir={profile}", size, "about:blank"]
        process = subprocess.Popen([executable(), *ARGS, *own], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield Unattended(kind, _port(Path(profile) / "DevToolsActivePort"))
        finally:
            process.terminate()
            process.wait()


def _port(file: Path) -> int:
    """Chromium writes its port and a path to this file once it listens."""
    deadline = time.monotonic() + PATIENCE_S
    while not file.exists() or "\n" not in file.read_text():
        if time.monotonic() > deadline:
            raise Broken("Chromium didn't start.")
        time.sleep(EACH_S)
    return int(file.read_text().split()[0])
