"""Templates: settings of launches that a project keeps under a name. Whoever may launch in the project keeps, renames and deletes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from django.contrib.auth.models import User
from django.db import IntegrityError
from django.db.models import QuerySet
from django.utils import timezone
from msgspec import UNSET, Meta, UnsetType

from tuning import audit
from tuning.actions import projects
from tuning.actions.launching import OWN, Launch
from tuning.actions.machines import placing
from tuning.host import targets
from tuning.host.devices import HERE, is_remote
from tuning.models import LaunchTemplate, Project
from tuning.validation import Conflict, Invalid, gather

LONGEST_NAME = 60
CHOICES = ("network", "engine")
"""What other settings depend on."""
TAKEN = "There is a template of that name in the project. Choose another name, or replace it."
GONE = "Somebody has just deleted the template."


class FromTemplate(msgspec.Struct):
    """The template that a launch has its settings from."""

    template: (
        Annotated[
            str,
            Meta(
                description="A template of the project, by name. It has the settings that the body lacks; `network` can then be left out."
            ),
        ]
        | UnsetType
    ) = UNSET


class Saved(msgspec.Struct):
    """How the settings of a launch are kept."""

    template: Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME, description="The template's name.")]
    replace: Annotated[
        bool, Meta(description="Whether it takes the place of a template that has the name already.")
    ] = False


def usable(user: User | None) -> QuerySet[LaunchTemplate]:
    """Those of the projects in which the user may launch, by project and name."""
    return LaunchTemplate.objects.filter(project__in=projects.usable(user, projects.LAUNCH)).select_related(
        "project", "saved_by"
    )


def filled(data: Mapping[str, Any], user: User | None) -> dict[str, Any]:
    """The launch with the settings of the `template` that it names, as far as it lacks them; without one, as it is.

    Raises `Invalid`. What doesn't go with another network or engine than the template's is left out; an empty one is the template's.
    """
    given = {name: value for name, value in data.items() if name != "template"}
    if "template" not in data:
        return given
    project = projects.chosen(given.get("project"), user, projects.LAUNCH)
    kept = dict(_existing(data["template"], project).settings)
    given = {name: value for name, value in given.items() if name not in CHOICES or value not in (None, "")}
    if given.get("network", kept["network"]) != kept["network"]:
        del kept["network_options"]
    if given.get("engine", kept["engine"]) != kept["engine"]:
        kept = {name: value for name, value in kept.items() if name in OWN and name != "interpreter"}
    return {**kept, **given, "project": project.name}


def save(data: Mapping[str, Any], user: User | None) -> tuple[LaunchTemplate, bool]:
    """Keep the settings of a launch under the name `template`; return whether it is a new one, too.

    `data` as for `runs.launch`, with the fields of `Saved`. Raises `Invalid` that names every field at fault; then nothing is stored.
    """
    wrong: dict[str, str] = {}
    settings = {name: value for name, value in data.items() if name not in (*Saved.__struct_fields__, "continues")}
    name = gather(wrong, _checked_name, data.get("template"))
    if not isinstance(replace := data.get("replace", False), bool):
        wrong["replace"] = "Must be true or false."
    launch: Launch | None = gather(wrong, Launch, settings, user)
    if wrong or launch is None:
        raise Invalid(wrong)
    found = _named(name, launch.project)
    if found is None:
        return _created(name, _kept(settings, launch), launch.project, user), True
    if not replace:
        raise Invalid({"template": TAKEN})
    with audit.act("template.replace", found, project=launch.project.name, network=launch.network):
        _set(found, settings=_kept(settings, launch), saved_by=user, saved_at=timezone.now())
    return found, False


def rename(template: LaunchTemplate, given: Any) -> None:
    """Raises `Invalid`, or `Conflict` if the template is gone."""
    name = _checked_name(given, "name")
    if _named(name, template.project) not in (None, template):
        raise Invalid({"name": "There is a template of that name in the project."})
    try:
        with audit.act("template.rename", template, name={"from": template.name, "to": name}):
            _set(template, name=name)
    except IntegrityError as error:  # Somebody else was faster.
        raise Invalid({"name": "There is a template of that name in the project."}) from error


def delete(template: LaunchTemplate) -> None:
    """Raises `Conflict` if the template is gone. Runs that were launched from it stay as they are."""
    with audit.act("template.delete", audit.Thing("template", template.pk, template.name)):
        if not LaunchTemplate.objects.filter(pk=template.pk).delete()[0]:
            raise Conflict(GONE)


def _kept(given: Mapping[str, Any], launch: Launch) -> dict[str, Any]:
    """What is stored: every option, so that a template stays what it is if a default changes; the target as it was given."""
    settings = {
        "network": launch.network,
        "network_options": launch.network_options,
        "engine": launch.engine.name,
        "interpreter": launch.interpreter,
        "target": targets.asked(given.get("target")),
        "device": launch.device if is_remote(launch.device) else HERE,
        "machine": given.get("machine") or placing.ANY,
        "machines": launch.machines or placing.ALL,
        "priority": given.get("priority") or "normal",
        **msgspec.to_builtins(launch.budget),
        **msgspec.to_builtins(launch.options),
    }
    if given.get("seed") in (None, ""):
        del settings["seed"]
    return settings if given.get("name") in (None, "") else {**settings, "name": launch.name}


def _created(name: str, settings: dict[str, Any], project: Project, user: User | None) -> LaunchTemplate:
    template = LaunchTemplate(project=project, name=name, settings=settings, saved_by=user, saved_at=timezone.now())
    try:
        with audit.act("template.create", template, project=project.name, network=settings["network"]):
            template.save()
    except IntegrityError as error:  # Somebody else was faster.
        raise Invalid({"template": TAKEN}) from error
    return template


def _set(template: LaunchTemplate, **values: Any) -> None:
    if not LaunchTemplate.objects.filter(pk=template.pk).update(**values):
        raise Conflict(GONE)
    for name, value in values.items():
        setattr(template, name, value)


def _existing(name: Any, project: Project) -> LaunchTemplate:
    found = _named(name, project) if isinstance(name, str) else None
    if found is None:
        there_are = ", ".join(project.templates.values_list("name", flat=True)) or "none yet"
        raise Invalid(
            {
                "template": f"There is no template {str(name)[:LONGEST_NAME]!r} in the project {project}. There are: {there_are}."
            }
        )
    return found


def _named(name: str, project: Project) -> LaunchTemplate | None:
    """Names that differ in upper and lower case only would be confused."""
    return next((one for one in project.templates.all() if one.name.casefold() == name.strip().casefold()), None)


def _checked_name(given: Any, field: str = "template") -> str:
    name = given.strip() if isinstance(given, str) else ""
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        raise Invalid({field: f"Must be one line of 1 to {LONGEST_NAME} characters."})
    return name
