"""Actions in a second thread, at the moment that matters."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from django.db import connection


def when(condition: Callable[[], bool], action: Callable[[], Any]) -> threading.Thread:
    """Runs the action in a thread as soon as the condition holds; gives up after five minutes."""

    def watch() -> None:
        try:
            until(condition, within_s=300)
            action()
        finally:
            connection.close()  # PostgreSQL doesn't drop a database that has connections

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def until(condition: Callable[[], bool], within_s: float = 30) -> None:
    """Waits for what another thread does."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
