"""The address of the site that a command prints links to."""

from __future__ import annotations

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from dashboard.hosting import SiteLock


def add_base(parser: CommandParser) -> None:
    """The option `--base`."""
    parser.add_argument(
        "--base", help="scheme, host and port of the site (default: TUNEBOARD_URL, or those of the running `up`)"
    )


def site_url(base: str | None) -> str:
    """What `--base` says, else TUNEBOARD_URL, else where `up` listens. Raises `CommandError` if none of them is known."""
    known = base or settings.SITE_URL or str(SiteLock(settings.VAR).read().get("url", ""))
    if not known:
        raise CommandError("`up` isn't running on this data folder: pass the site's address, as in --base https://…")
    return known
