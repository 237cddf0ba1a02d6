"""Make, change and delete projects, and find the one that something belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User
from django.db import IntegrityError

from tuning import audit
from tuning.models import Project, Run, project_of_token
from tuning.validation import Conflict, Invalid, gather, unknown
from tuning.wording import listed

LAUNCH = "tuning.add_run"
UPLOAD = "tuning.add_network"
LONGEST_NAME = 60
GONE = "Somebody has just deleted the project."
TAKEN = "Another project has that name."


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


def create(name: Any) -> Project:
    """Make a project without members, which the site's admins see. Raises `Invalid`."""
    project = Project(name=_checked_name(name))
    try:
        with audit.act("project.create", project):
            project.save()
    except IntegrityError as error:  # Somebody else was faster.
        raise Invalid({"name": TAKEN}) from error
    return project


def change(project: Project, given: Mapping[str, Any]) -> None:
    """Rename the project, share it, or both: `given` has `name`, `shared` or both.

    Raises `Invalid` that names every field at fault, or `Conflict` if the project is gone; then nothing is changed.
    """
    wrong = unknown(given, ("name", "shared"))
    name = gather(wrong, _checked_name, given["name"], project) if "name" in given else project.name
    shared = given.get("shared", project.shared)
    if not isinstance(shared, bool):
        wrong["shared"] = "Must be true or false."
    if wrong:
        raise Invalid(wrong)
    try:
        with audit.together():
            if name != project.name:
                with audit.act("project.rename", project, name={"from": project.name, "to": name}):
                    _set(project, name=name)
            if shared != project.shared:
                with audit.act("project.share", project, shared=shared):
                    _set(project, shared=shared)
    except IntegrityError as error:
        raise Invalid({"name": TAKEN}) from error


def _set(project: Project, **values: Any) -> None:
    if not Project.objects.filter(pk=project.pk).update(**values):
        raise Conflict(GONE)
    for name, value in values.items():
        setattr(project, name, value)


def delete(project: Project) -> None:
    """Delete a project without runs, models and regression checks, its memberships and templates. Raises `Conflict`."""
    with audit.act("project.delete", audit.Thing("project", project.pk, project.name)):
        # The lock keeps new runs and models out until this is done.
        locked = Project.objects.select_for_update().filter(pk=project.pk).first()
        if locked is None:
            raise Conflict(GONE)
        if why := why_kept(locked):
            raise Conflict(why)
        locked.delete()


def why_kept(project: Project) -> str:
    """Why the project can't be deleted; empty if it can."""
    if project == Project.objects.default():
        return "This is the site’s first project, which always exists. You can rename it."
    runs, models = Run.everything.filter(project=project).count(), project.networks.count()
    deleted = runs - Run.objects.filter(project=project).count()
    checks = project.regression_checks.count()
    held = [_counted(runs, "run") + (f" ({deleted} of them deleted, but not removed for good yet)" if deleted else "")]
    held = [*(held if runs else []), *([_counted(models, "model")] if models else [])]
    held = [*held, *([_counted(checks, "regression check")] if checks else [])]
    return f"The project has {listed(held)}. Only an empty project can be deleted." if held else ""


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _checked_name(given: Any, project: Project | None = None) -> str:
    """Names that differ in upper and lower case only would be confused."""
    name = given.strip() if isinstance(given, str) else ""
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        raise Invalid({"name": f"Must be 1 to {LONGEST_NAME} characters."})
    if any(other.name.casefold() == name.casefold() for other in Project.objects.all() if other != project):
        raise Invalid({"name": TAKEN})
    return name
