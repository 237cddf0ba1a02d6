"""Print a URL that signs a user in once."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import CommandError, CommandParser

from dashboard.accounts import first_admin, one_time_login_url
from dashboard.hosting import SiteLock
from tuning.management.migrated import MigratedCommand


class Command(MigratedCommand):
    """Prints nothing but the URL on stdout."""

    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", nargs="?", help="who to sign in (default: the first admin)")
        parser.add_argument("--base", help="scheme, host and port of the site (default: those of the running `up`)")

    def handle(self, *, user: str | None, base: str | None, **options: Any) -> None:
        base = base or str(SiteLock(settings.VAR).read().get("url", ""))
        if not base:
            raise CommandError(
                "`up` isn't running on this data folder: pass the site's address, as in --base https://…"
            )
        self.stdout.write(one_time_login_url(_user(user), base))


def _user(name: str | None) -> User:
    if name is None:
        return first_admin()
    user = User.objects.filter(username=name, is_active=True).first()
    if user is None:
        raise CommandError(
            f"There is no active user {name}. To create one: manage.py create_token {name} --role viewer"
        )
    return user
