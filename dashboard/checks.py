"""What `manage.py check --deploy` says about this machine, besides Django's own checks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core import checks

from tuning.host import sandbox, schema
from tuning.host.private import is_open
from tuning.storage import checking

HINT = (
    "It takes Landlock (Linux 5.13), filters of system calls (x86-64 or 64-bit ARM) and the right to make namespaces. Containers often"
    " forbid the latter."
)


@checks.register(checks.Tags.security, deploy=True)
def private_folder(**_: Any) -> list[checks.CheckMessage]:
    """Warn if other users of the machine can enter TUNEBOARD_VAR."""
    if not is_open(settings.VAR):
        return []
    return [
        checks.Warning(
            f"Other users of this machine can enter {settings.VAR}.",
            hint="Make it the folder of the user that Tuneboard runs as: it then closes it to others. Or set TUNEBOARD_VAR to one.",
            id="tuneboard.W001",
        )
    ]


@checks.register(checks.Tags.security, deploy=True)
def not_root(**_: Any) -> list[checks.CheckMessage]:
    """Warn of a site that runs as root."""
    if os.geteuid() != 0:
        return []
    return [
        checks.Warning(
            "Tuneboard runs as root: a hole in the kernel, or in what confines processes, would give the whole machine away.",
            hint="Run it as a user of its own: docs/security.md#a-user-of-its-own says how.",
            id="tuneboard.W004",
        )
    ]


@checks.register(checks.Tags.security, deploy=True)
def proxy_is_known(**_: Any) -> list[checks.CheckMessage]:
    """Warn of a proxy for HTTPS that isn't listed: all clients then have its address."""
    if settings.PROXIES or not settings.HTTPS:
        return []
    return [
        checks.Warning(
            "TUNEBOARD_HTTPS is on, but TUNEBOARD_PROXIES is empty: all requests seem to come from the proxy, and a stranger's"
            " wrong passwords lock everybody's sign-in.",
            hint="Set TUNEBOARD_PROXIES to the addresses that the proxy connects from.",
            id="tuneboard.W003",
        )
    ]


@checks.register(checks.Tags.security, deploy=True)
def sandbox_in_force(**_: Any) -> list[checks.CheckMessage]:
    """Say what keeps the processes that read uploads from this machine's files and its network."""
    try:
        in_force = sandbox.in_force()
    except ValueError as error:
        return [checks.Warning(f"What confines processes that read uploads isn't known: {error}", id="tuneboard.W002")]
    parts = {
        "files": in_force.files,
        "modes and times of files": in_force.metadata,
        "network": in_force.network,
        "processes": in_force.processes,
        "shared memory": in_force.ipc,
        "system calls": in_force.calls,
    }
    said = "; ".join(f"{part}: {means or 'nothing'}" for part, means in parts.items())
    said += f"; broker: {in_force.broker}" if in_force.broker else ""
    hint = None if all(parts.values()) else HINT
    return [
        checks.Info(
            f"What keeps processes that read uploads from what isn't theirs: {said}.", hint=hint, id="tuneboard.I001"
        )
    ]


@checks.register(checks.Tags.security, deploy=True)
def store_is_usable(**_: Any) -> list[checks.CheckMessage]:
    """Refuse an object store that can't be written, read and deleted from."""
    trouble = checking.trouble()
    return [checks.Error(trouble, id="tuneboard.E002")] if trouble else []


@checks.register(checks.Tags.database)
def database_not_newer(*, databases: Sequence[str] | None = None, **_: Any) -> list[checks.CheckMessage]:
    """Refuse a database that a later version has migrated. Django's own `migrate` checks this before it does anything."""
    trouble = schema.newer() if databases else None
    return [checks.Error(trouble, id="tuneboard.E001")] if trouble else []
