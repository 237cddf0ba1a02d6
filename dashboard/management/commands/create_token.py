"""`manage.py create_token USER`: print an API token."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser
from django.db import transaction

from dashboard import accounts
from dashboard.models import UNNAMED, ApiToken
from dashboard.people import tokens
from tuning.management.migrated import MigratedCommand
from tuning.models import Project
from tuning.validation import Invalid

ROLE_OF_NEW_USERS = "operator"


class Command(MigratedCommand):
    """Prints nothing but the token on stdout."""

    help = "Print an API token for USER, who is created if necessary. The token can't be shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", metavar="USER")
        parser.add_argument(
            "--role",
            choices=accounts.ROLES,
            help=f"the user's role from now on, in --project or the first project; `admin` without --project is an admin of the site (default: {ROLE_OF_NEW_USERS} for a new user, unchanged for an existing one)",
        )

        parser.add_argument(
            "--project", default="", help="the only project that the token is for (default: all of the user's projects)"
        )
        parser.add_argument("--name", default=UNNAMED, help="what the token is for, up to 100 characters")
        parser.add_argument(
            "--scope",
            choices=ApiToken.Scope.values,
            default=ApiToken.Scope.ADMIN,
            help="what the token may be used for, within the user's role (default: admin, which is everything)",
        )
        parser.add_argument("--days", type=int, help="days until it expires, 1 to 3650 (default: never)")

    def handle(self, *, user: str, role: str | None, project: str, days: int | None, **options: Any) -> None:
        try:
            asked = tokens.checked(options["name"], options["scope"], days)
            only = _project(project)
            with transaction.atomic():
                owner = self._user(user, role, only)
                text = tokens.made(owner, tokens.project_named(owner, project), asked)[1]
        except Invalid as invalid:
            raise CommandError(
                "\n".join(f"--{field}: {reason}" for field, reason in invalid.fields.items())
            ) from invalid
        self.stdout.write(text)

    def _user(self, name: str, role: str | None, project: Project | None) -> User:
        user = User.objects.filter(username=User.normalize_username(name)).first()
        if user is None:
            user, role = self._made(name), role or ROLE_OF_NEW_USERS
            self.stderr.write(f"Created the user {name} ({role}), without a password.")
        if not user.is_active:
            raise CommandError(f"The user {name} is inactive, so the token would be refused.")
        if role is not None:
            accounts.give_role(user, role, project)
        return user

    def _made(self, name: str) -> User:
        try:
            return accounts.make_user(name)
        except ValidationError as error:
            raise CommandError(f"{name!r} is not a valid user name: {' '.join(error.messages)}") from error


def _project(name: str) -> Project | None:
    """The project of this name; None without one. Raises `Invalid`."""
    found = Project.objects.filter(name=name).first()
    if name and found is None:
        raise Invalid({"project": f"There is no project {name!r}."})
    return found
