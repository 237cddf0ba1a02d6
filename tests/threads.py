"""Deeds of another thread than the test's, at the moment that matters."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from django.db import connection


def when(condition: Callable[[], bool], deed: Callable[[], Any]) -> threading.Thread:
    """Does the deed in a thread, once the condition holds; the thread's own connection is closed then."""

    def watch() -> None:
        try:
            while not condition():
                time.sleep(0.02)
            deed()
        finally:
            connection.close()  # PostgreSQL drops no database that somebody is connected to

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread
