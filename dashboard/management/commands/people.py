"""`manage.py people`: who may sign in, and as what."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandError, CommandParser
from django.core.serializers.json import DjangoJSONEncoder

from dashboard.accounts import ROLES, one_time_login_url
from dashboard.management.addresses import add_base, site_url
from dashboard.people import managing
from tuning.management.migrated import MigratedCommand
from tuning.models import Project
from tuning.validation import Conflict, Invalid

IN_PROJECT = "where the role holds (default: the only project; for admin, the whole site)"


class Command(MigratedCommand):
    """`invite` prints nothing but the login URL on stdout."""

    help = "List people, invite somebody, change a role, deactivate or reactivate somebody."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", dest="as_json", help="list people as JSON")
        acts = parser.add_subparsers(dest="act", title="what to do (default: list everybody)")
        invite = acts.add_parser("invite", help="create a person, and print a one-time login URL for them")
        invite.add_argument("name", metavar="NAME")
        invite.add_argument("--role", choices=ROLES, default="viewer", help="default: viewer")
        invite.add_argument("--project", metavar="PROJECT", help=IN_PROJECT)
        add_base(invite)
        role = acts.add_parser("role", help="give a person another role")
        role.add_argument("name", metavar="NAME")
        role.add_argument("role", choices=ROLES)
        role.add_argument("--project", metavar="PROJECT", help=IN_PROJECT)
        for act, what in (
            ("deactivate", "end a person's sessions and tokens at once"),
            ("reactivate", "let a person sign in again"),
        ):
            acts.add_parser(act, help=what).add_argument("name", metavar="NAME")

    def handle(self, *, act: str | None, **options: Any) -> None:
        """Errors end it with the reason. What isn't valid names its field."""
        does: dict[str | None, Callable[..., None]] = {
            None: self._list,
            "invite": self._invite,
            "role": self._role,
            "deactivate": self._deactivate,
            "reactivate": self._reactivate,
        }
        try:
            does[act](**options)
        except (Conflict, Invalid) as error:
            raise CommandError(str(error)) from error

    def _list(self, *, as_json: bool, **_: Any) -> None:
        people, several = managing.people(), Project.objects.count() > 1
        as_text = (
            json.dumps(people, cls=DjangoJSONEncoder, indent=2)
            if as_json
            else "\n".join(_line(one, several) for one in people)
        )
        self.stdout.write(as_text)

    def _invite(self, *, name: str, role: str, project: str | None, base: str | None, **_: Any) -> None:
        address = site_url(base)
        self.stdout.write(one_time_login_url(managing.invite(name, role, project), address))

    def _role(self, *, name: str, role: str, project: str | None, **_: Any) -> None:
        managing.change_role(_user(name), role, project)
        self.stdout.write(f"{name} has the role {role}{f' in {project}' if project else ''} now.")

    def _deactivate(self, *, name: str, **_: Any) -> None:
        managing.deactivate(_user(name))
        self.stdout.write(f"{name} is deactivated and signed out everywhere.")

    def _reactivate(self, *, name: str, **_: Any) -> None:
        managing.reactivate(_user(name))
        self.stdout.write(f"{name} can sign in again.")


def _user(name: str) -> User:
    user = User.objects.filter(username=name).first()
    if user is None:
        raise CommandError(f"There is no person {name}. `manage.py people` lists everybody.")
    return user


def _line(person: managing.PersonDict, several: bool) -> str:  # noqa: FBT001
    seen = f"seen {person['seen_at']:%Y-%m-%d %H:%M} UTC" if person["seen_at"] else "last seen: not recorded"
    state = "active" if person["active"] else "deactivated"
    tokens = f"{person['tokens']} token{'' if person['tokens'] == 1 else 's'}"
    return ", ".join([f"{person['name']}: {_roles(person, several)}", state, *person["signs_in_by"], tokens, seen])


def _roles(person: managing.PersonDict, several: bool) -> str:  # noqa: FBT001
    """With the project's name if there are several."""
    if person["manages_site"]:
        return "admin of the site" if several else "admin"
    roles = (f"{one['role']} in {one['name']}" if several else one["role"] for one in person["projects"])
    return " and ".join(roles) or "no role"
