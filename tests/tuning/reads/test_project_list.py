"""Projects with how much is in each."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from tests.world import make_network, make_run, make_user, measured_run
from tuning.actions import curation, members, projects
from tuning.models import Project
from tuning.reads import project_list

pytestmark = pytest.mark.django_db


def test_it_counts_members_runs_and_models_of_each(django_assert_num_queries: Any) -> None:
    for name in ("ada", "grace", "joan"):
        make_user("viewer", name)
    vision = projects.create("vision")
    members.add(vision, "ada", "admin")
    for device in ("a", "b"):
        make_run(project=vision, device=device)
    ended = measured_run(project=vision, device="c")
    ended.move("running", to="stopped")
    curation.delete(ended)
    model = make_network(project=vision)
    with django_assert_num_queries(1):
        default, shown = project_list.projects(None)
    assert (default["members"], default["runs"], default["models"], default["active_at"]) == (3, 0, 0, None)
    assert (shown["members"], shown["runs"], shown["models"]) == (1, 2, 1)
    assert shown["active_at"] == model.uploaded_at


def test_a_deleted_run_was_activity_all_the_same() -> None:
    ended = measured_run()
    ended.move("running", to="stopped")
    curation.delete(ended)
    (shown,) = project_list.projects(None)
    assert (shown["runs"], shown["active_at"] is not None) == (0, True)


def test_everybody_sees_their_own() -> None:
    admin, ada = make_user("admin"), make_user("operator", "ada")
    vision = projects.create("vision")
    members.add(vision, "ada", "viewer")
    projects.create("secret")
    fresh = User.objects.get(pk=ada.pk)
    assert [(one["name"], one["role"]) for one in project_list.projects(fresh)] == [
        ("default", "operator"),
        ("vision", "viewer"),
    ]
    assert [(one["name"], one["role"]) for one in project_list.projects(admin)] == [
        ("default", None),
        ("secret", None),
        ("vision", None),
    ]


def test_members_are_listed_by_name_and_those_who_left_last() -> None:
    for name in ("joan", "ada", "bob"):
        make_user("viewer", name)
    User.objects.filter(username="ada").update(is_active=False)
    shown = project_list.members(Project.objects.default())
    assert [(one["name"], one["role"], one["active"]) for one in shown] == [
        ("bob", "viewer", True),
        ("joan", "viewer", True),
        ("ada", "viewer", False),
    ]
