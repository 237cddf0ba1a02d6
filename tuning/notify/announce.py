"""Tells watching browsers what was just committed. The database is the truth: an announcement may get lost."""

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
    """The channel-layer group of a run's watchers."""
    return f"run.{run_id}"


def compilation_group(compilation_id: int) -> str:
    """The same of a compilation's."""
    return f"compilation.{compilation_id}"


def announce(run_id: int, delta: RunDelta) -> None:
    """Send the delta to the run's group, in order. Never raises: tuning doesn't depend on being watched."""
    _send(group_name(run_id), delta)


def announce_compilation(compilation_id: int) -> None:
    """Send the compilation as the database has it, if it is there still."""
    if compilation := Compilation.objects.shown().filter(pk=compilation_id).first():
        _send(compilation_group(compilation_id), {"type": "delta", "compilation": compilation.to_dict()})


def _send(group: str, message: Any) -> None:
    try:
        _announcer().send(group, msgspec.json.encode(message).decode())
    except Exception as error:  # noqa: BLE001 - the channel layer raises whatever its client does
        _log_once_an_outage(error)
    else:
        _outage.clear()


def announce_status(run: Run) -> None:
    """Send the run as the database has it, after a change that came with no trial."""
    run = Run.objects.select_related("network", "created_by").get(pk=run.pk)
    last = run.trials_done
    announce(
        run.pk,
        {
            "type": "delta",
            "after": last,
            "last": last,
            "trials": trial_columns([], {}, last),
            "run": run.to_dict(tasks=run.tasks.all()),
            "tasks": [],
        },
    )


class _Announcer:
    """An event loop of its own in a thread, since the channel layer keeps its connections by loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="announcer", daemon=True).start()

    def send(self, group: str, text: str) -> None:
        layer = get_channel_layer()
        assert layer is not None, "CHANNEL_LAYERS has no default"
        message = {"type": "run.delta", "text": text}
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


def _log_once_an_outage(error: Exception) -> None:
    if not _outage.is_set():
        _outage.set()
        logger.warning(
            "Watchers are not told of progress until Redis answers again: %s", str(error) or type(error).__name__
        )
