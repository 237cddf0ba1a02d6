"""Print a URL that signs a user in once."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandError, CommandParser

from dashboard.accounts import first_admin, one_time_login_url
from dashboard.management.addresses import add_base, site_url
from tuning.management.migrated import MigratedCommand


class Command(MigratedCommand):
    """Prints nothing but the URL on stdout."""

    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", nargs="?", help="who to sign in (default: the first admin)")
        add_base(parser)

    def handle(self, *, user: str | None, base: str | None, **options: Any) -> None:
        address = site_url(base)
        self.stdout.write(one_time_login_url(_user(user), address))


def _user(name: str | None) -> User:
    if name is None:
        return first_admin()
    user = User.objects.filter(username=name, is_active=True).first()
    if user is None:
        raise CommandError(
            f"There is no active user {name}. To create one: manage.py create_token {name} --role viewer"
        )
    return user
