"""Projects are created, renamed, shared and deleted."""

from __future__ import annotations

from typing import Any

import pytest

from tests.world import make_network, make_run, make_user, measured_run
from tuning.actions import curation, members, projects
from tuning.models import AuditEntry, Membership, Project
from tuning.validation import Conflict, Invalid

pytestmark = pytest.mark.django_db


def recorded() -> list[tuple[str, str, Any]]:
    rows = AuditEntry.objects.filter(object_kind="project", refused=False).order_by("pk")
    return [(entry.action, entry.object_name, entry.details) for entry in rows]


def names() -> list[str]:
    return list(Project.objects.values_list("name", flat=True))


def test_it_creates_renames_shares_and_deletes() -> None:
    project = projects.create("  computer vision ")
    assert (project.name, project.shared, project.memberships.count()) == ("computer vision", False, 0)
    projects.change(project, {"name": "vision", "shared": True})
    projects.change(project, {"name": "vision", "shared": True})
    assert Project.objects.filter(name="vision", shared=True).exists()
    projects.delete(project)
    assert names() == ["default"]
    assert recorded() == [
        ("project.create", "computer vision", {}),
        ("project.rename", "vision", {"name": {"from": "computer vision", "to": "vision"}}),
        ("project.share", "vision", {"shared": True}),
        ("project.delete", "vision", {}),
    ]


@pytest.mark.parametrize(
    "name", ["", "  ", None, 7, ["x"], "x" * 61, "a\nb", "nul\0", "\ud800", "Default", " DEFAULT "]
)
def test_it_refuses_a_name_that_is_not_one_or_taken(name: Any) -> None:
    with pytest.raises(Invalid, match=r"^name: "):
        projects.create(name)
    other = projects.create("other")
    with pytest.raises(Invalid, match=r"^name: "):
        projects.change(other, {"name": name, "shared": True})
    other.refresh_from_db()
    assert (other.name, other.shared) == ("other", False)
    assert names() == ["default", "other"]


def test_a_project_may_change_the_case_of_its_own_name() -> None:
    projects.change(Project.objects.default(), {"name": "DEFAULT"})
    assert names() == ["DEFAULT"]


@pytest.mark.parametrize("shared", ["", "true", 1, None, []])
def test_it_names_every_field_at_fault(shared: Any) -> None:
    with pytest.raises(Invalid) as refused:
        projects.change(Project.objects.default(), {"name": "", "shared": shared, "owner": "ada"})
    assert refused.value.fields.keys() == {"name", "shared", "owner"}


def test_the_first_project_stays() -> None:
    projects.create("vision")
    first = Project.objects.default()
    projects.change(first, {"name": "zoo"})
    with pytest.raises(Conflict, match="first project"):
        projects.delete(first)
    assert names() == ["vision", "zoo"]


def test_only_an_empty_project_is_deleted() -> None:
    project = projects.create("vision")
    make_run(project=project, device="a")
    ended = measured_run(project=project, device="b")
    ended.move("running", to="stopped")
    curation.delete(ended)
    make_network(project=project)
    with pytest.raises(Conflict, match=r"has 2 runs \(1 of them deleted, but not removed for good yet\) and 1 model\."):
        projects.delete(project)
    assert names() == ["default", "vision"]
    assert AuditEntry.objects.filter(action="project.delete", refused=True).count() == 1


def test_deleted_runs_alone_keep_a_project_too() -> None:
    project = projects.create("vision")
    ended = measured_run(project=project)
    ended.move("running", to="stopped")
    curation.delete(ended)
    with pytest.raises(Conflict, match=r"has 1 run \(1 of them deleted"):
        projects.delete(project)


def test_its_members_roles_go_with_it_and_no_others() -> None:
    make_user("viewer", "ada")
    project = projects.create("vision")
    members.add(project, "ada", "admin")
    projects.delete(project)
    assert list(Membership.objects.values_list("project__name", "role")) == [("default", "viewer")]


def test_whoever_is_slower_is_told_that_the_project_is_gone() -> None:
    project = projects.create("vision")
    twin = Project.objects.get(pk=project.pk)
    projects.delete(project)
    with pytest.raises(Conflict, match="just deleted"):
        projects.delete(twin)
    with pytest.raises(Conflict, match="just deleted"):
        projects.change(twin, {"name": "x", "shared": True})
    assert names() == ["default"]
