"""Roles: viewers look, operators launch, admins manage."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import call_command

from dashboard.accounts import CHANGE, LAUNCH, VIEW, first_admin, give_role, role_of
from tests.world import make_user

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        ("viewer", {VIEW}),
        ("operator", {VIEW, LAUNCH, CHANGE}),
        ("admin", {VIEW, LAUNCH, CHANGE, "tuning.delete_run", "auth.change_user", "dashboard.delete_apitoken"}),
    ],
)
def test_it_gives_each_role_its_permissions(role: str, allowed: set[str]) -> None:
    user = make_user(role)
    asked = {VIEW, LAUNCH, CHANGE, "tuning.delete_run", "auth.change_user", "dashboard.delete_apitoken"}
    assert {permission for permission in asked if user.has_perm(permission)} == allowed


def test_migrating_restores_the_permissions_of_roles() -> None:
    viewer = Group.objects.get(name="viewer")
    viewer.permissions.set(Group.objects.get(name="admin").permissions.all())
    Group.objects.get(name="operator").delete()
    call_command("migrate", verbosity=0)
    assert not make_user("viewer").has_perm(LAUNCH)
    assert make_user("operator").has_perm(LAUNCH)


def test_it_finds_the_strongest_role() -> None:
    user = make_user("viewer")
    user.groups.add(Group.objects.get(name="operator"))
    assert role_of(user) == "operator"
    assert role_of(User.objects.create_user("nobody")) is None
    assert role_of(User.objects.create_superuser("root")) == "admin"


def test_a_user_has_one_role_and_keeps_other_groups() -> None:
    user = make_user("admin")
    user.groups.add(Group.objects.create(name="compilers"))
    give_role(user, "viewer")
    assert {group.name for group in user.groups.all()} == {"viewer", "compilers"}


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
