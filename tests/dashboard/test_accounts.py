"""Roles: viewers look, operators launch, admins manage."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import call_command

from dashboard.accounts import (
    CHANGE,
    LAUNCH,
    MANAGE_PEOPLE,
    MANAGE_PROJECT,
    MANAGE_WEBHOOKS,
    SEE_AUDIT,
    SEE_METRICS,
    SEE_SYSTEM,
    VIEW,
    VIEW_PEOPLE,
    active_admins,
    first_admin,
    give_role,
    role_of,
)
from tests.world import make_user
from tuning.models import Project

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        ("viewer", {VIEW}),
        ("operator", {VIEW, LAUNCH, CHANGE, "tuning.delete_run"}),
        ("admin", {VIEW, LAUNCH, CHANGE, "tuning.delete_run", "auth.change_user", "dashboard.delete_apitoken"}),
    ],
)
def test_it_gives_each_role_its_permissions(role: str, allowed: set[str]) -> None:
    user = make_user(role)
    asked = {VIEW, LAUNCH, CHANGE, "tuning.delete_run", "auth.change_user", "dashboard.delete_apitoken"}
    assert {*user.get_all_permissions()} & asked == allowed
    assert {permission for permission in asked if user.has_perm(permission)} == allowed


def test_migrating_restores_the_permissions_of_admins() -> None:
    Group.objects.get(name="admin").permissions.clear()
    call_command("migrate", verbosity=0)
    assert make_user("admin").has_perm("auth.change_user")


def test_it_finds_the_strongest_role() -> None:
    user = make_user("viewer")
    give_role(user, "operator", Project.objects.create(name="second"))
    assert role_of(User.objects.get(pk=user.pk)) == "operator"
    assert role_of(User.objects.create_user("nobody")) is None
    assert role_of(User.objects.create_superuser("root")) == "admin"


def test_a_user_has_one_role_and_keeps_other_groups() -> None:
    user = make_user("admin")
    user.groups.add(Group.objects.create(name="compilers"))
    give_role(user, "viewer")
    assert {group.name for group in user.groups.all()} == {"compilers"}
    assert role_of(User.objects.get(pk=user.pk)) == "viewer"
    give_role(user, "operator")
    assert role_of(User.objects.get(pk=user.pk)) == "operator"
    assert user.memberships.count() == 1


def test_an_admin_of_a_project_manages_nothing_else() -> None:
    user, second = make_user("viewer"), Project.objects.create(name="second")
    give_role(user, "admin", second)
    user = User.objects.get(pk=user.pk)
    assert role_of(user) == "admin"
    assert user.has_perm(MANAGE_PROJECT, second)
    assert not user.has_perm(MANAGE_PROJECT, Project.objects.default())
    assert not any(
        map(user.has_perm, (MANAGE_PEOPLE, VIEW_PEOPLE, SEE_AUDIT, SEE_METRICS, SEE_SYSTEM, MANAGE_WEBHOOKS))
    )
    assert user not in active_admins()


def test_it_creates_the_first_admin_once_without_a_password() -> None:
    admin = first_admin()
    assert first_admin() == admin
    assert role_of(admin) == "admin"
    assert not admin.has_usable_password()


def test_it_uses_an_existing_admin() -> None:
    admin = make_user("admin", "ada")
    assert first_admin() == admin


def test_it_does_not_promote_a_user_named_admin() -> None:
    make_user("viewer", "admin")
    assert first_admin().username != "admin"
