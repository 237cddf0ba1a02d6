"""Templates: settings of launches that projects keep under a name."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router, Status
from typing_extensions import TypedDict

from dashboard.accounts import LAUNCH
from dashboard.api import bodies
from dashboard.api.auth import needs
from dashboard.api.shapes import ERRORS
from dashboard.http.access import find, person
from tuning.actions.launches import templates
from tuning.models import LaunchTemplate, username

router = Router(tags=["templates"])
ONE = "templates/{number:template_id}"


class TemplateDict(TypedDict):
    """`settings` has what a launch takes, without the project."""

    id: int
    name: str
    project: str
    settings: dict[str, Any]
    saved_by: str | None
    saved_at: str


class TemplateList(TypedDict):
    """By project and name."""

    items: list[TemplateDict]


@router.get("templates", response={200: TemplateList, **ERRORS})
def list_templates(request: HttpRequest) -> TemplateList:
    """The templates of your projects."""
    seen = LaunchTemplate.objects.seen_by(person(request)).select_related("project", "saved_by")
    return {"items": list(map(_shown, seen))}


@router.post(
    "templates",
    response={(200, 201): TemplateDict, **ERRORS},
    auth=needs(LAUNCH),
    openapi_extra=bodies.TEMPLATE,
)
def save_template(request: HttpRequest) -> Status[TemplateDict]:
    """Keep the settings of a launch, which is checked and not launched. 200 if they replace those of a template."""
    template, new = templates.save(bodies.json_object(request), person(request))
    return Status(201 if new else 200, _shown(template))


@router.get(ONE, response={200: TemplateDict, **ERRORS})
def get_template(request: HttpRequest, template_id: int) -> TemplateDict:
    """A template of one of your projects."""
    return _shown(_template(request, template_id))


@router.patch(ONE, response={200: TemplateDict, **ERRORS}, auth=needs(LAUNCH), openapi_extra=bodies.TEMPLATE_NAME)
def rename_template(request: HttpRequest, template_id: int) -> TemplateDict:
    """Rename a template."""
    template = _template(request, template_id, LAUNCH)
    templates.rename(template, bodies.fields(request, "name").get("name"))
    return _shown(template)


@router.delete(ONE, response={204: None, **ERRORS}, auth=needs(LAUNCH))
def delete_template(request: HttpRequest, template_id: int) -> Status[None]:
    """Delete a template. Runs that were launched from it stay as they are."""
    templates.delete(_template(request, template_id, LAUNCH))
    return Status(204, None)


def _template(request: HttpRequest, template_id: int, permission: str = "") -> LaunchTemplate:
    return find(request, LaunchTemplate.objects.select_related("project", "saved_by"), permission, pk=template_id)


def _shown(template: LaunchTemplate) -> TemplateDict:
    return {
        "id": template.pk,
        "name": template.name,
        "project": template.project.name,
        "settings": template.settings,
        "saved_by": username(template.saved_by),
        "saved_at": template.saved_at.isoformat(),
    }
