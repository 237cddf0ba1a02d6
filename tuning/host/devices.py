"""The devices that runs measure on: this machine's (`cpu`, `cuda:0`), or those of a key of an allowed tracker (`rpc:TRACKER/KEY`)."""

from __future__ import annotations

import re
from typing import Any

from django.conf import settings

from tuning.engines.wire import tracker
from tuning.engines.wire.protocol import Remote
from tuning.engines.wire.tracker import Address, TrackerError
from tuning.validation import Invalid

HERE = "this machine"
REMOTE = "rpc"
"""Begins the names of remote devices, and names the queue that they share."""
_REMOTE = re.compile(rf"{REMOTE}:(?P<tracker>[^/]+)/(?P<key>[\w.-]{{1,35}})", re.ASCII)


class NotAllowed(Exception):
    """The device belongs to a tracker that isn't allowed (anymore)."""


def is_remote(device: str) -> bool:
    return device.startswith(f"{REMOTE}:")


def remote_of(device: str) -> Remote | None:
    """Where the engine finds the device; None for a device of this machine. Raises `NotAllowed`."""
    if not is_remote(device):
        return None
    match = _REMOTE.fullmatch(device)
    if not match:
        raise NotAllowed(f"{device[:60]!r} isn't a device: write rpc:TRACKER/KEY.")
    known: dict[str, Address] = settings.TRACKERS
    if match["tracker"] not in known:
        allowed = f"Allowed: {', '.join(known)}." if known else "None is allowed: see TUNEBOARD_TRACKERS."
        raise NotAllowed(f"There is no tracker {match['tracker'][:60]!r}. {allowed}")
    return Remote(known[match["tracker"]], match["key"], settings.DEVICE_PATIENCE_S)


def chosen(given: Any) -> str | None:
    """The remote device that a launch names, if it is available right now; None for this machine's. Raises `Invalid`."""
    if given in (None, "", HERE):
        return None
    if not isinstance(given, str) or not is_remote(given):
        raise Invalid({"device": f"Must be {HERE!r} (the target decides which device) or rpc:TRACKER/KEY."})
    try:
        remote = remote_of(given)
        assert remote
        found = tracker.summary(remote.tracker)
    except (NotAllowed, TrackerError) as trouble:
        raise Invalid({"device": str(trouble)}) from trouble
    if not found.total(remote.key):
        keys = ", ".join(queue.key for queue in found.queues if queue.total) or "none"
        raise Invalid(
            {"device": f"The tracker at {remote.tracker} has no device with the key {remote.key}. Keys: {keys}."}
        )
    return given
