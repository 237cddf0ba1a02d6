"""What `manage.py check --deploy` says about this machine, besides Django's own checks."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core import checks

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
