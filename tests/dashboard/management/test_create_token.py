"""`manage.py create_token`."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from subprocess import PIPE

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.utils import timezone

from dashboard.accounts import role_of
from dashboard.models import ApiToken
from tests.live import environment
from tests.world import make_user
from tuning.models import Project

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


@pytest.mark.rare
@pytest.mark.one_database
def test_it_works_on_a_machine_that_was_never_migrated(tmp_path: Path, project_root: Path) -> None:
    """Several concurrent calls each issue a token, with nothing else on stdout."""
    env = environment(tmp_path / "var", f"sqlite:///{tmp_path / 'new.sqlite3'}")
    command = [sys.executable, "manage.py", "create_token"]
    calls = [
        subprocess.Popen([*command, name], cwd=project_root, env=env, stdout=PIPE, stderr=PIPE, text=True)
        for name in ("ann", "bob", "eve")
    ]
    said = [call.communicate() for call in calls]
    assert [call.returncode for call in calls] == [0, 0, 0], said
    assert all(re.fullmatch(r"tb_[\w-]{43}\n", out) for out, _ in said)


@pytest.mark.one_database
def test_it_reports_in_one_line_that_the_database_is_down(tmp_path: Path, project_root: Path) -> None:
    env = environment(tmp_path / "var", "postgres://x:secret@127.0.0.1:9/x")
    command = [sys.executable, "manage.py", "create_token", "ann"]
    done = subprocess.run(command, cwd=project_root, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("CommandError: The database x at 127.0.0.1:9 can't be reached")
    assert len(done.stderr.splitlines()) == 1
    assert "secret" not in done.stderr


def test_it_creates_a_user_without_a_password() -> None:
    _, err = create_token("robot")
    user = User.objects.get(username="robot")
    assert not user.has_usable_password()
    assert role_of(user) == "operator"
    assert "robot" in err


def test_an_existing_user_keeps_the_role() -> None:
    user = make_user("viewer", "eve")
    _, err = create_token("eve")
    assert role_of(user) == "viewer"
    assert err == ""


def test_it_changes_the_role_if_asked() -> None:
    user = make_user("admin", "eve")
    create_token("eve", "--role", "viewer")
    assert role_of(User.objects.get(pk=user.pk)) == "viewer"


def test_a_token_can_be_for_one_project() -> None:
    Project.objects.create(name="second")
    text, _ = create_token("robot", "--project", "second")
    caught = ApiToken.objects.owner_of(text.strip())
    assert caught is not None
    assert list(Project.objects.seen_by(caught).values_list("name", flat=True)) == ["second"]
    assert [(one.project.name, one.role) for one in caught.memberships.all()] == [("second", "operator")]
    with pytest.raises(CommandError, match="--project: There is no project 'third'"):
        create_token("eve", "--project", "third")
    make_user("viewer", "ada")
    with pytest.raises(CommandError, match="--project: Must be one of these projects, or be left out: default"):
        create_token("ada", "--project", "second")
    assert not User.objects.filter(username="eve").exists()
    assert ApiToken.objects.count() == 1


def test_each_call_issues_a_new_token() -> None:
    assert create_token("robot") != create_token("robot")
    assert ApiToken.objects.count() == 2


@pytest.mark.parametrize("name", ["", "two words", "a" * 151, "semi;colon", "new\nline"])
def test_it_refuses_a_bad_name(name: str) -> None:
    with pytest.raises(CommandError, match="is not a valid user name"):
        create_token(name)
    assert not User.objects.exists()


def test_it_refuses_an_unknown_role() -> None:
    with pytest.raises(CommandError, match=r"invalid choice: 'king'.*viewer.*operator.*admin"):
        create_token("robot", "--role", "king")
    assert not User.objects.exists()


def test_it_refuses_a_deactivated_user() -> None:
    User.objects.create_user("gone", is_active=False)
    with pytest.raises(CommandError, match="inactive"):
        create_token("gone")
    assert not ApiToken.objects.exists()


def test_the_token_has_a_name_a_scope_and_an_end() -> None:
    create_token("robot", "--name", "nightly", "--scope", "read", "--days", "7")
    token = ApiToken.objects.get()
    assert (token.name, token.scope) == ("nightly", "read")
    assert token.expires_at is not None
    assert timedelta(days=6) < token.expires_at - timezone.now() <= timedelta(days=7)
    create_token("robot")
    token = ApiToken.objects.first() or token
    assert (token.name, token.scope, token.expires_at) == ("unnamed", "admin", None)


@pytest.mark.parametrize("days", ["0", "-1", "3651"])
def test_it_refuses_an_impossible_end_and_creates_nothing(days: str) -> None:
    with pytest.raises(CommandError, match="--days: Must be a whole number from 1 to 3650"):
        create_token("robot", "--days", days)
    assert not User.objects.filter(username="robot").exists()
