"""`manage.py people`."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from dashboard.accounts import role_of
from dashboard.models import Person
from tests.world import make_user
from tuning.actions import projects

pytestmark = pytest.mark.django_db


def people(*arguments: str) -> str:
    out = io.StringIO()
    call_command("people", *arguments, stdout=out, no_color=True)
    return out.getvalue()


def test_it_lists_everybody() -> None:
    make_user("admin", "ada")
    Person.objects.all().delete()  # As if she had never been here.
    assert people() == "ada: admin, active, password, 0 tokens, last seen: not recorded\n"
    assert json.loads(people("--json"))[0]["name"] == "ada"


def test_it_prints_a_login_url_and_nothing_else() -> None:
    make_user("admin", "ada")
    url = people("invite", "grace", "--role", "operator", "--base", "http://testserver")
    assert url.startswith("http://testserver/login/?sesame=")
    assert url.count("\n") == 1
    assert Client().post(url.strip()).status_code == 302


def test_it_changes_a_role_and_deactivates_and_reactivates() -> None:
    make_user("admin", "ada")
    grace = make_user("viewer", "grace")
    assert people("role", "grace", "operator") == "grace has the role operator now.\n"
    assert role_of(User.objects.get(pk=grace.pk)) == "operator"
    assert "deactivated" in people("deactivate", "grace")
    assert "grace: operator, deactivated" in people()
    assert people("reactivate", "grace") == "grace can sign in again.\n"


def test_a_role_can_hold_in_a_project() -> None:
    make_user("admin", "ada")
    projects.create("vision")
    people("invite", "grace", "--role", "admin", "--project", "vision", "--base", "http://x")
    assert "grace: admin in vision, active" in people()
    assert people("role", "grace", "viewer", "--project", "default") == "grace has the role viewer in default now.\n"
    assert "grace: viewer in default and admin in vision" in people()
    with pytest.raises(CommandError, match="project: Choose one of default, vision"):
        people("invite", "joan", "--base", "http://x")


def test_links_lead_to_the_public_address(settings: Any) -> None:
    make_user("admin", "ada")
    settings.SITE_URL = "https://tune.example"
    assert people("invite", "grace").startswith("https://tune.example/login/")
    out = io.StringIO()
    call_command("login_url", "grace", stdout=out)
    assert out.getvalue().startswith("https://tune.example/login/")
    settings.SITE_URL = ""
    with pytest.raises(CommandError, match="--base"):
        call_command("login_url", "grace")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("deactivate", "nobody"), "There is no person nobody"),
        (("deactivate", "ada"), "ada is the last active admin"),
        (("role", "ada", "viewer"), "ada is the last active admin"),
        (("invite", "Ada", "--base", "http://x"), "name: Ada already exists."),
        (("invite", "grace"), "--base"),
    ],
)
def test_it_says_why_not(arguments: tuple[str, ...], said: str) -> None:
    make_user("admin", "ada")
    with pytest.raises(CommandError, match=said):
        people(*arguments)
    assert User.objects.count() == 1
