"""`create_token USER [--role viewer|operator|admin]`: an API token on stdout, and nothing else there."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser
from django.db import transaction

from dashboard import accounts
from dashboard.models import ApiToken
from tuning.management.migrated import MigratedCommand

ROLE_OF_NEW_USERS = "operator"


class Command(MigratedCommand):
    """Makes a token, and its user when there is none."""

    help = "Print an API token for USER, who is made when there is none. It can't be shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        """USER and --role."""
        parser.add_argument("user", metavar="USER")
        parser.add_argument(
            "--role",
            choices=accounts.ROLES,
            help=f"what the user may do from now on. Without it a new user is {ROLE_OF_NEW_USERS}, an old one stays as is",
        )

    def handle(self, *, user: str, role: str | None, **_: Any) -> None:
        """Print the token."""
        with transaction.atomic():
            token = ApiToken.issue(self._user(user, role))
        self.stdout.write(token)

    def _user(self, name: str, role: str | None) -> User:
        user = User.objects.filter(username=User.normalize_username(name)).first()
        if user is None:
            user, role = self._made(name), role or ROLE_OF_NEW_USERS
            self.stderr.write(f"Made the user {name} ({role}), without a password.")
        if not user.is_active:
            raise CommandError(f"The user {name} is deactivated: a token would be refused.")
        if role is not None:
            accounts.give_role(user, role)
        return user

    def _made(self, name: str) -> User:
        try:
            return accounts.make_user(name)
        except ValidationError as error:
            raise CommandError(f"{name!r} can't be a user's name: {' '.join(error.messages)}") from error
