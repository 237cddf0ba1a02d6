"""The page of people, for admins."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django.asserts import assertContains, assertNotContains, assertRedirects

from dashboard.accounts import role_of
from tests.world import make_user
from tuning.actions import projects

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(client: Client) -> Client:
    client.force_login(make_user("admin", "ada"))
    return client


def link_in(page: str) -> str:
    found = re.search(r'data-role="login-url">([^<]+)<', page)
    assert found
    return found[1].replace("&amp;", "&")


def test_it_invites_by_a_link_that_is_shown_once(admin: Client) -> None:
    page = admin.post("/admin/people/invite/", {"name": "grace", "role": "operator"})
    assertContains(page, "Login link for grace", status_code=201)
    link = link_in(page.content.decode())
    assert link.startswith("http://testserver/login/?sesame=")
    assertNotContains(admin.get("/admin/people/"), "sesame")
    assertRedirects(admin.get("/admin/people/invite/"), "/admin/people/")
    assert Client().post(link).status_code == 302
    assert Client().post(link).status_code == 403


def test_it_keeps_what_was_typed_next_to_what_is_wrong(admin: Client) -> None:
    page = admin.post("/admin/people/invite/", {"name": "grace hopper", "role": "operator"})
    assertContains(page, 'value="grace hopper"', status_code=422)
    assertContains(page, "Enter a valid username", status_code=422)
    assertContains(page, "<option selected>operator</option>", status_code=422, html=True)
    assert User.objects.count() == 1


def test_a_new_link_replaces_nothing_until_it_is_used(admin: Client) -> None:
    grace = make_user("viewer", "grace")
    page = admin.post(f"/admin/people/{grace.pk}/link/")
    first, second = (
        link_in(page.content.decode()),
        link_in(admin.post(f"/admin/people/{grace.pk}/link/").content.decode()),
    )
    assert Client().post(second).status_code == 302
    assert Client().post(first).status_code == 403


def test_it_links_to_the_public_address(admin: Client, settings: pytest.FixtureRequest) -> None:
    settings.SITE_URL = "https://tune.example"  # type: ignore[attr-defined]
    page = admin.post("/admin/people/invite/", {"name": "grace", "role": "viewer"})
    assert link_in(page.content.decode()).startswith("https://tune.example/login/?sesame=")


def test_it_changes_roles_and_deactivates_and_reactivates(admin: Client) -> None:
    grace = make_user("viewer", "grace")
    page = admin.post(f"/admin/people/{grace.pk}/role/", {"role": "operator"}, follow=True)
    assertContains(page, "grace has the role operator now.")
    assert role_of(User.objects.get(pk=grace.pk)) == "operator"
    assertContains(
        admin.post(f"/admin/people/{grace.pk}/role/", {"role": "root"}, follow=True), "Must be one of viewer"
    )
    page = admin.post(f"/admin/people/{grace.pk}/deactivate/", follow=True)
    assertContains(page, "grace is deactivated and signed out everywhere.")
    assertContains(page, f"/admin/people/{grace.pk}/reactivate/")
    assertNotContains(page, f"/admin/people/{grace.pk}/role/")
    assertContains(admin.post(f"/admin/people/{grace.pk}/link/", follow=True), "Reactivate the account first")
    assertContains(admin.post(f"/admin/people/{grace.pk}/reactivate/", follow=True), "grace can sign in again.")


def test_a_person_is_invited_into_a_project(admin: Client) -> None:
    vision = projects.create("vision")
    assertContains(admin.get("/admin/people/"), "<option selected>default</option>", html=True)
    page = admin.post("/admin/people/invite/", {"name": "grace", "role": "operator", "project": ""})
    assertContains(page, "Choose one of default, vision.", status_code=422)
    admin.post("/admin/people/invite/", {"name": "grace", "role": "operator", "project": "vision"})
    page = admin.get("/admin/people/")
    assertContains(page, f'operator in <a href="/admin/projects/{vision.pk}/">vision</a>')


def test_a_persons_page_shows_their_projects_and_gives_roles(admin: Client) -> None:
    vision = projects.create("vision")
    grace = make_user("viewer", "grace")
    assertContains(admin.get("/admin/people/"), f'href="/admin/people/{grace.pk}/"')
    role = f"/admin/people/{grace.pk}/role/"
    page = admin.post(role, {"role": "operator", "project": "vision"}, follow=True)
    assertRedirects(page, f"/admin/people/{grace.pk}/")
    assertContains(page, "grace has the role operator in vision now.")
    assertContains(page, f'href="/admin/projects/{vision.pk}/"')
    assertContains(admin.post(role, {"role": "operator", "project": ""}, follow=True), "Choose one of default, vision.")
    assertContains(admin.post(role, {"role": "admin", "project": ""}, follow=True), "grace manages the site")
    assert admin.get("/admin/people/999/").status_code == 404


def test_the_last_admin_is_told_why(admin: Client) -> None:
    ada = User.objects.get(username="ada")
    assertNotContains(admin.get("/admin/people/"), f"/admin/people/{ada.pk}/deactivate/")
    assertContains(admin.post(f"/admin/people/{ada.pk}/deactivate/", follow=True), "your own account")
    assertContains(admin.post(f"/admin/people/{ada.pk}/role/", {"role": "viewer"}, follow=True), "your own role")
    assert role_of(User.objects.get()) == "admin"


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_it_is_for_admins_only(client: Client, role: str) -> None:
    user = make_user(role)
    client.force_login(user)
    assert client.get("/admin/people/").status_code == 403
    for act in ("link", "deactivate", "reactivate", "role"):
        assert client.get(f"/admin/people/{user.pk}/").status_code == 403
        assert client.post(f"/admin/people/{user.pk}/{act}/", {"role": "admin"}).status_code == 403
    assert client.post("/admin/people/invite/", {"name": "x", "role": "admin"}).status_code == 403
    assertNotContains(client.get("/runs/"), "Administration")
