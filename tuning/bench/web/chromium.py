"""Headless Chromium by Playwright, which is one of the tests' requirements: a site needs neither."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

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


class NoBrowser(Exception):
    """Says what isn't installed."""


def executable() -> str:
    """Debian's Chromium; raises `NoBrowser`."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        raise NoBrowser("there is no `chromium` on PATH; on Debian: apt-get install chromium")
    return path


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser without any visitor yet. Raises `NoBrowser`. Meanwhile this thread has an event loop."""
    path = executable()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as missing:
        raise NoBrowser("playwright (tests/requirements.txt) isn't installed") from missing
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=ARGS)
        try:
            yield started
        finally:
            started.close()
