"""What `manage.py check --deploy` says about this machine, besides Django's own checks."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core import checks

from tuning.host import sandbox
from tuning.host.private import is_open


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
    """Warn if this machine can't keep the processes that read uploads from its files or its network."""
    in_force = sandbox.in_force()
    missing = [what for what, how in (("files", in_force.files), ("network", in_force.network)) if how is None]
    if not missing:
        return []
    return [
        checks.Warning(
            f"Processes that read uploaded models aren't kept from this machine's {' and '.join(missing)}.",
            hint="It takes Landlock (Linux 5.13; for the network 6.7), or the right to make namespaces; containers often forbid both.",
            id="tuneboard.W002",
        )
    ]
