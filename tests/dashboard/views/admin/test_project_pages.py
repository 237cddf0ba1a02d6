"""The pages of projects: for the site's admins, and for the admins of projects."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django.asserts import assertContains, assertNotContains, assertRedirects

from tests.world import make_run, make_user, measured_run
from tuning.actions import members, projects
from tuning.models import Project

pytestmark = pytest.mark.django_db


@pytest.fixture
def vision() -> Project:
    """A project with the admin grace, who is nobody elsewhere, and the viewer ada."""
    project = projects.create("vision")
    for name, role in (("grace", "admin"), ("ada", "viewer")):
        user = make_user("viewer", name)
        user.memberships.all().delete()
        members.add(project, name, role)
    return project


def signed_in(name: str) -> Client:
    client = Client()
    client.force_login(User.objects.get(username=name))
    return client


@pytest.fixture
def admin() -> Client:
    make_user("admin")
    return signed_in("a-admin")


def test_an_admin_of_the_site_creates_and_deletes_one(admin: Client) -> None:
    page = admin.post("/admin/projects/create/", {"name": "vision"}, follow=True)
    assertContains(page, "vision is created. Add its members.")
    vision = Project.objects.get(name="vision")
    assertContains(page, "Nobody yet")
    assertContains(page, "Delete the project")
    assertRedirects(admin.get("/admin/projects/create/"), "/admin/projects/")
    assertContains(admin.post(f"/admin/projects/{vision.pk}/delete/", follow=True), "vision is deleted.")
    assert Project.objects.count() == 1


def test_what_was_typed_stays_next_to_what_is_wrong(admin: Client, vision: Project) -> None:
    page = admin.post("/admin/projects/create/", {"name": "Vision"})
    assertContains(page, 'value="Vision"', status_code=422)
    assertContains(page, "Another project has that name.", status_code=422)
    page = admin.post(f"/admin/projects/{vision.pk}/change/", {"name": "default", "shared": "on"})
    assertContains(page, "Another project has that name.", status_code=422)
    assertContains(page, "<h1>vision</h1>", status_code=422, html=True)
    assertContains(page, 'value="default"', status_code=422)
    page = admin.post(f"/admin/projects/{vision.pk}/members/", {"name": "nobody", "role": "admin"})
    assertContains(page, "Nobody has this name.", status_code=422)
    assertContains(page, "<option selected>admin</option>", status_code=422)


def test_a_project_with_runs_says_how_many_instead_of_deleting(admin: Client, vision: Project) -> None:
    make_run(project=vision)
    assertContains(admin.get(f"/admin/projects/{vision.pk}/"), "The project has 1 run.")
    page = admin.post(f"/admin/projects/{vision.pk}/delete/", follow=True)
    assertContains(page, "Only an empty project can be deleted.")
    assertContains(admin.get(f"/admin/projects/{Project.objects.default().pk}/"), "first project")


def test_an_admin_of_a_project_manages_it_and_sees_no_other(vision: Project) -> None:
    grace = signed_in("grace")
    assertContains(grace.get("/runs/"), 'href="/admin/projects/"')
    page = grace.get("/admin/projects/")
    assertContains(page, "vision")
    for hidden in ("default", "Create a project", "/admin/people/", "/admin/audit/", "/admin/system/", "/webhooks/"):
        assertNotContains(page, hidden)
    place = f"/admin/projects/{vision.pk}/"
    assertNotContains(grace.get(place), "Delete the project")
    make_user("viewer", "joan")
    assertContains(
        grace.post(f"{place}members/", {"name": "joan", "role": "operator"}, follow=True), "joan is a member"
    )
    joan = User.objects.get(username="joan").pk
    page = grace.post(f"{place}members/{joan}/role/", {"role": "viewer"}, follow=True)
    assertContains(page, "joan has the role viewer in vision now.")
    assertContains(grace.post(f"{place}members/{joan}/role/", {"role": "root"}, follow=True), "Must be one of viewer")
    page = grace.post(f"{place}members/{joan}/remove/", follow=True)
    assertContains(page, "joan is no longer a member of vision.")
    assertContains(grace.post(f"{place}change/", {"name": "sight", "shared": "on"}, follow=True), "Saved.")
    vision.refresh_from_db()
    assert (vision.name, vision.shared) == ("sight", True)


def test_a_projects_admin_reaches_nothing_beyond_it(vision: Project) -> None:
    grace, default = signed_in("grace"), Project.objects.default()
    other = make_user("viewer", "joan")
    for path in ("", "change/", "members/", f"members/{other.pk}/role/", f"members/{other.pk}/remove/"):
        place = f"/admin/projects/{default.pk}/{path}"
        given = {"name": "grace", "role": "admin", "shared": "on"}
        assert (grace.post(place, given) if path else grace.get(place)).status_code == 404
    # A member of another project isn't one of this.
    assert grace.post(f"/admin/projects/{vision.pk}/members/{other.pk}/remove/").status_code == 404
    assert grace.post("/admin/projects/create/", {"name": "mine"}).status_code == 403
    assert grace.post(f"/admin/projects/{vision.pk}/delete/").status_code == 403
    assert grace.get("/admin/people/").status_code == 403
    assert grace.get(f"/admin/people/{other.pk}/").status_code == 403
    assert list(default.memberships.values_list("user", "role")) == [(other.pk, "viewer")]
    assert not default.shared


def test_members_who_do_not_manage_it_are_refused(vision: Project) -> None:
    ada = signed_in("ada")
    assertNotContains(ada.get("/runs/"), "/admin/projects/")
    for path in ("", f"{vision.pk}/"):
        assert ada.get(f"/admin/projects/{path}").status_code == 403
    me = User.objects.get(username="ada").pk
    for path in ("change/", "members/", f"members/{me}/role/", f"members/{me}/remove/"):
        assert ada.post(f"/admin/projects/{vision.pk}/{path}", {"name": "ada", "role": "admin"}).status_code == 403
    assert vision.memberships.get(user=me).role == "viewer"


def test_an_admin_of_one_project_who_is_a_viewer_of_another_does_not_manage_that(vision: Project) -> None:
    members.add(Project.objects.default(), "grace", "viewer")
    grace, default = signed_in("grace"), Project.objects.default()
    assertNotContains(grace.get("/admin/projects/"), "default")
    assert grace.get(f"/admin/projects/{default.pk}/").status_code == 403
    assert grace.post(f"/admin/projects/{default.pk}/change/", {"name": "mine"}).status_code == 403


def test_whoever_gives_up_managing_is_led_elsewhere(vision: Project) -> None:
    grace, me = signed_in("grace"), User.objects.get(username="grace").pk
    page = grace.post(f"/admin/projects/{vision.pk}/members/{me}/role/", {"role": "viewer"})
    assertRedirects(page, "/runs/", fetch_redirect_response=False)
    assert grace.get(f"/admin/projects/{vision.pk}/").status_code == 403


def test_a_run_names_its_project_only_where_there_are_several(admin: Client) -> None:
    run = measured_run(name="a run")
    assertNotContains(admin.get(f"/runs/{run.pk}/"), "project default")
    assertNotContains(admin.get("/runs/"), "filter-project")
    vision = projects.create("vision")
    other = measured_run(name="another", project=vision, device="elsewhere")
    assertContains(admin.get(f"/runs/{run.pk}/"), "project default")
    page = admin.get("/runs/?project=vision")
    assertContains(page, "filter-project")
    assertContains(page, f'id="run-{other.pk}"')
    assertNotContains(page, f'id="run-{run.pk}"')
