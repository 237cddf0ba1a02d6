"""`manage.py create_token`."""

from __future__ import annotations

import io
import re

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from dashboard.accounts import role_of
from dashboard.models import ApiToken
from tests.world import make_user

pytestmark = pytest.mark.django_db


def create_token(*arguments: str) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    call_command("create_token", *arguments, stdout=out, stderr=err, no_color=True)
    return out.getvalue(), err.getvalue()


def test_it_prints_a_token_and_nothing_else() -> None:
    out, _ = create_token("robot", "--role", "viewer")
    assert re.fullmatch(r"tb_[\w-]{43}\n", out)
    owner = ApiToken.objects.owner_of(out.strip())
    assert owner is not None
    assert owner.username == "robot"


def test_it_makes_the_user_without_a_password() -> None:
    _, err = create_token("robot")
    user = User.objects.get(username="robot")
    assert not user.has_usable_password()
    assert role_of(user) == "operator"
    assert "robot" in err


def test_it_leaves_the_role_of_a_known_user() -> None:
    user = make_user("viewer", "eve")
    _, err = create_token("eve")
    assert role_of(user) == "viewer"
    assert err == ""


def test_it_changes_the_role_when_told() -> None:
    user = make_user("admin", "eve")
    create_token("eve", "--role", "viewer")
    assert [group.name for group in user.groups.all()] == ["viewer"]


def test_it_gives_a_new_token_each_time() -> None:
    assert create_token("robot") != create_token("robot")
    assert ApiToken.objects.count() == 2


@pytest.mark.parametrize("name", ["", "two words", "a" * 151, "semi;colon", "new\nline"])
def test_it_refuses_a_bad_name(name: str) -> None:
    with pytest.raises(CommandError, match="can't be a user's name"):
        create_token(name)
    assert not User.objects.exists()


def test_it_refuses_an_unknown_role() -> None:
    with pytest.raises(CommandError, match=r"invalid choice: 'king'.*viewer.*operator.*admin"):
        create_token("robot", "--role", "king")
    assert not User.objects.exists()


def test_it_refuses_a_deactivated_user() -> None:
    User.objects.create_user("gone", is_active=False)
    with pytest.raises(CommandError, match="deactivated"):
        create_token("gone")
    assert not ApiToken.objects.exists()
