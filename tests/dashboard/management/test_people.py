"""`manage.py people`."""

from __future__ import annotations

import io
import json

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from dashboard.accounts import role_of
from dashboard.models import Person
from tests.world import make_user

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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("deactivate", "nobody"), "There is no person nobody"),
        (("deactivate", "ada"), "ada is the last active admin"),
        (("role", "ada", "viewer"), "ada is the last active admin"),
        (("invite", "Ada", "--base", "http://x"), "name: There is a person"),
        (("invite", "grace"), "--base"),
    ],
)
def test_it_says_why_not(arguments: tuple[str, ...], said: str) -> None:
    make_user("admin", "ada")
    with pytest.raises(CommandError, match=said):
        people(*arguments)
    assert User.objects.count() == 1
