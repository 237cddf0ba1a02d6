"""Who this machine is: its key, and what it tells the site of itself."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import psutil
from django.conf import settings

from tuning.engines.wire.versions import in_use
from tuning.host import schema
from tuning.host.private import kept_secret
from tuning.version import VERSION


def key() -> str:
    """What identifies the data folder, whatever the machine is called: made once, and kept there."""
    return kept_secret(settings.VAR / "machine_key")


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """Of what decides whether machines fit together, by package."""
    return {"tuneboard": VERSION, "schema": schema.latest(), **in_use()}


def facts() -> dict[str, Any]:
    """What can be told without TVM; columns of `Machine`."""
    return {
        "memory": psutil.virtual_memory().total,
        "devices": list(settings.DEVICES),
        "versions": versions(),
        "storage": settings.STORAGE,
    }
