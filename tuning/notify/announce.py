"""Tells watching browsers what was just committed. An announcement may get lost: the database is the truth."""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import lru_cache
from typing import Any

import msgspec
from channels.layers import get_channel_layer

from tuning.models import Compilation, Run, RunDelta, trial_columns

logger = logging.getLogger(__name__)
TIMEOUT_S = 2.0


def group_name(run_id: int) -> str:
    """The channel layer's group of a run's watchers."""
    return f"run.{run_id}"


def compilation_group(compilation_id: int) -> str:
    """The channel layer's group of a compilation's watchers."""
    return f"compilation.{compilation_id}"


def watcher_group(user_id: int) -> str:
    """The channel layer's group of a user's own sockets."""
    return f"user.{user_id}"


def announce(run_id: int, delta: RunDelta) -> None:
    """Send the delta to the run's watchers, in order. Never raises: tuning doesn't depend on being watched."""
    _send(group_name(run_id), delta)


def announce_compilation(compilation_id: int) -> None:
    """Send the compilation as it is in the database, unless it was deleted."""
    if compilation := Compilation.objects.shown().filter(pk=compilation_id).first():
        _send(compilation_group(compilation_id), {"type": "delta", "compilation": compilation.to_dict()})


def announce_sign_out(user_id: int) -> None:
    """Have the user's sockets check at once whether they may still be open: a session or a membership has ended."""
    _send_as("session.check", watcher_group(user_id))


def _send(group: str, message: Any) -> None:
    _send_as("run.delta", group, text=msgspec.json.encode(message).decode())


def _send_as(kind: str, group: str, **content: str) -> None:
    try:
        _announcer().send(group, {"type": kind, **content})
    except Exception as error:  # noqa: BLE001 - the channel layer raises whatever its client does
        _log_once_per_outage(error)
    else:
        _outage.clear()


def announce_status(run: Run) -> None:
    """Send the run as it is in the database, after a change without trials."""
    related = ("network", "project", "created_by", "machine", "chosen_machine")
    run = Run.objects.select_related(*related).get(pk=run.pk)
    last = run.trials_done
    announce(
        run.pk,
        {
            "type": "delta",
            "after": last,
            "last": last,
            "trials": trial_columns([], {}, {}, last),
            "run": run.to_dict(tasks=run.tasks.all()),
            "tasks": [],
        },
    )


class _Announcer:
    """One event loop in a thread, because the channel layer keeps its connections per loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="announcer", daemon=True).start()

    def send(self, group: str, message: dict[str, str]) -> None:
        layer = get_channel_layer()
        assert layer is not None, "CHANNEL_LAYERS has no default"
        future = asyncio.run_coroutine_threadsafe(layer.group_send(group, message), self._loop)
        try:
            future.result(TIMEOUT_S)
        except FutureTimeoutError:
            future.cancel()
            raise


@lru_cache(maxsize=1)
def _announcer() -> _Announcer:
    return _Announcer()


_outage = threading.Event()


def _log_once_per_outage(error: Exception) -> None:
    if not _outage.is_set():
        _outage.set()
        logger.warning("Browsers get no live updates until Redis answers again: %s", str(error) or type(error).__name__)
