"""What `manage.py check --deploy` says about this machine, besides Django's own checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core import checks

from tuning.host import sandbox, schema
from tuning.host.private import is_open

HINT = "It takes Landlock (Linux 5.13; for the network 6.7) and the right to make namespaces. Containers often forbid the latter."


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
def sandbox_in_force(**_: Any) -> list[checks.CheckMessage]:
    """Say what keeps the processes that read uploads from this machine's files and its network."""
    in_force = sandbox.in_force()
    said = f"files: {in_force.files or 'nothing'}; network: {in_force.network or 'nothing'}"
    hint = None if in_force.files and in_force.network else HINT
    return [
        checks.Info(
            f"What keeps processes that read uploads from this machine's {said}.", hint=hint, id="tuneboard.I001"
        )
    ]


@checks.register(checks.Tags.database)
def database_not_newer(*, databases: Sequence[str] | None = None, **_: Any) -> list[checks.CheckMessage]:
    """Refuse a database that a later version has migrated. Django's own `migrate` checks this before it does anything."""
    trouble = schema.newer() if databases else None
    return [checks.Error(trouble, id="tuneboard.E001")] if trouble else []
