"""The project that somebody launches into or uploads to."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User

from tuning.models import Project, project_of_token
from tuning.validation import Invalid

LAUNCH = "tuning.add_run"
UPLOAD = "tuning.add_network"


def usable(user: User | None, permission: str) -> list[Project]:
    """The projects in which the user has the permission, the oldest first."""
    seen = Project.objects.seen_by(user).order_by("pk")
    return [one for one in seen if user is None or user.has_perm(permission, one)]


def chosen(name: Any, user: User | None, permission: str) -> Project:
    """The project of this name, or without a name the only one in which the user has the permission.

    Raises `Invalid` for `project`. None as user is the site itself, which may use any project, and uses the first one by default.
    """
    known = usable(user, permission)
    if name in (None, ""):
        if user is None or len(known) == 1:
            return known[0]
    elif found := next((one for one in known if one.name == name), None):
        return found
    names = ", ".join(one.name for one in known)
    if known and user is not None and project_of_token(user) is not None:
        raise Invalid({"project": f"This token is only for the project {names}."})
    if not known:
        raise Invalid({"project": "There is no project in which your role allows you to do this."})
    if name in (None, ""):
        raise Invalid({"project": f"Choose a project: {names}."})
    raise Invalid(
        {
            "project": f"There is no project {str(name)[:60]!r} in which your role allows you to do this. There are: {names}."
        }
    )
