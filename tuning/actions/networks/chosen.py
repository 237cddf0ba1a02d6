"""The network that a launch or an extraction is for."""

from __future__ import annotations

from typing import Any

from tuning.engines.wire.catalog import BUILTIN
from tuning.models import Network, Project, fingerprint


def stored(name: str, options: dict[str, Any], project: Project | None) -> Network:
    """The row of a built-in network, which gets one when it is first used with these options, or of the project's model."""
    if name not in BUILTIN:
        return Network.objects.get(project=project, name=name)
    defaults = {"name": name, "options": options}
    known = Network.objects.get_or_create(project=None, fingerprint=fingerprint(name, options), defaults=defaults)
    return known[0]
