"""`manage.py projects`: what belongs together, and who sees it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.core.serializers.json import DjangoJSONEncoder

from dashboard.accounts import ROLES
from tuning.actions import members, projects
from tuning.management.migrated import MigratedCommand
from tuning.models import Membership, Project
from tuning.reads import project_list
from tuning.validation import Conflict, Invalid


class Command(MigratedCommand):
    """Projects and people are named, not numbered."""

    help = "List projects, create, rename, share or delete one, and say who its members are."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", dest="as_json", help="list projects or members as JSON")
        acts = parser.add_subparsers(dest="act", title="what to do (default: list all projects)")
        acts.add_parser("list", help="list all projects")
        acts.add_parser("create", help="create a project").add_argument("project", metavar="PROJECT")
        rename = acts.add_parser("rename", help="give a project another name")
        rename.add_argument("project", metavar="PROJECT")
        rename.add_argument("new_name", metavar="NAME")
        share = acts.add_parser("share", help="say whether operators may stop and delete each other's runs")
        share.add_argument("project", metavar="PROJECT")
        share.add_argument("shared", choices=("yes", "no"))
        acts.add_parser("delete", help="delete an empty project").add_argument("project", metavar="PROJECT")
        acts.add_parser("members", help="list a project's members").add_argument("project", metavar="PROJECT")
        add = acts.add_parser("add", help="make a person a member, or give a member another role")
        add.add_argument("project", metavar="PROJECT")
        add.add_argument("name", metavar="NAME")
        add.add_argument("--role", choices=ROLES, default="viewer", help="default: viewer")
        remove = acts.add_parser("remove", help="end a membership at once")
        remove.add_argument("project", metavar="PROJECT")
        remove.add_argument("name", metavar="NAME")

    def handle(self, *, act: str | None, project: str | None = None, **options: Any) -> None:
        """Errors end it with the reason. What isn't valid names its field."""
        does: dict[str, Callable[..., None]] = {
            "rename": self._rename,
            "share": self._share,
            "delete": self._delete,
            "members": self._members,
            "add": self._add,
            "remove": self._remove,
        }
        try:
            if act == "create":
                self.stdout.write(f"{projects.create(project)} is created.")
            elif act in does:
                does[act](_project(project), **options)
            else:
                self._show(project_list.projects(None), _line, **options)
        except (Conflict, Invalid) as error:
            raise CommandError(str(error)) from error

    def _show(self, rows: list[Any], line: Callable[[Any], str], *, as_json: bool, **_: Any) -> None:
        as_text = json.dumps(rows, cls=DjangoJSONEncoder, indent=2) if as_json else "\n".join(map(line, rows))
        self.stdout.write(as_text)

    def _rename(self, project: Project, *, new_name: str, **_: Any) -> None:
        before = project.name
        projects.change(project, {"name": new_name})
        self.stdout.write(f"{before} is called {project} now.")

    def _share(self, project: Project, *, shared: str, **_: Any) -> None:
        projects.change(project, {"shared": shared == "yes"})
        self.stdout.write(f"{project}: {_sharing(shared=project.shared)}.")

    def _delete(self, project: Project, **_: Any) -> None:
        projects.delete(project)
        self.stdout.write(f"{project} is deleted.")

    def _members(self, project: Project, **options: Any) -> None:
        self._show(project_list.members(project), _member_line, **options)

    def _add(self, project: Project, *, name: str, role: str, **_: Any) -> None:
        known = Membership.objects.filter(project=project, user__username=name).first()
        if known:
            members.change_role(known, role)
        else:
            members.add(project, name, role)
        self.stdout.write(f"{name} has the role {role} in {project} now.")

    def _remove(self, project: Project, *, name: str, **_: Any) -> None:
        known = Membership.objects.filter(project=project, user__username=name).first()
        if known is None:
            raise CommandError(f"{name} isn't a member of {project}. `manage.py projects members` lists them.")
        members.remove(known)
        self.stdout.write(f"{name} is no longer a member of {project}.")


def _project(name: str | None) -> Project:
    project = Project.objects.filter(name=name).first()
    if project is None:
        raise CommandError(f"There is no project {name}. `manage.py projects` lists all.")
    return project


def _line(project: project_list.ProjectDict) -> str:
    active = f"{project['active_at']:%Y-%m-%d %H:%M} UTC" if project["active_at"] else "none yet"
    counts = f"members: {project['members']:,}, runs: {project['runs']:,}, models: {project['models']:,}"
    return ", ".join([f"{project['name']}: {counts}", _sharing(shared=project["shared"]), f"activity: {active}"])


def _sharing(*, shared: bool) -> str:
    return "all operators stop and delete" if shared else "operators stop and delete their own runs"


def _member_line(member: project_list.MemberDict) -> str:
    return f"{member['name']}: {member['role']}{'' if member['active'] else ', deactivated'}"
