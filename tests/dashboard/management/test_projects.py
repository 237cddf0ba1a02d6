"""`manage.py projects`."""

from __future__ import annotations

import io
import json

import pytest
from django.core.management import CommandError, call_command

from tests.world import make_run, make_user
from tuning.models import Project

pytestmark = pytest.mark.django_db


def projects(*arguments: str) -> str:
    out = io.StringIO()
    call_command("projects", *arguments, stdout=out, no_color=True)
    return out.getvalue()


def test_it_lists_them() -> None:
    make_user("viewer", "ada")
    said = "default: members: 1, runs: 0, models: 0, operators stop and delete their own runs, activity: none yet\n"
    assert projects() == projects("list") == said
    assert json.loads(projects("--json"))[0]["name"] == "default"
    make_run()
    assert " UTC" in projects()


def test_it_creates_renames_shares_and_deletes() -> None:
    assert projects("create", "computer vision") == "computer vision is created.\n"
    assert projects("rename", "computer vision", "vision") == "computer vision is called vision now.\n"
    assert projects("share", "vision", "yes") == "vision: all operators stop and delete.\n"
    assert "own runs" in projects("share", "vision", "no")
    assert projects("delete", "vision") == "vision is deleted.\n"
    assert list(Project.objects.values_list("name", flat=True)) == ["default"]


def test_it_adds_changes_lists_and_removes_members() -> None:
    make_user("viewer", "ada")
    projects("create", "vision")
    assert projects("add", "vision", "ada") == "ada has the role viewer in vision now.\n"
    assert projects("add", "vision", "ada", "--role", "admin") == "ada has the role admin in vision now.\n"
    assert projects("members", "vision") == "ada: admin\n"
    assert json.loads(projects("--json", "members", "vision"))[0]["role"] == "admin"
    assert projects("remove", "vision", "ada") == "ada is no longer a member of vision.\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("create", "Default"), "name: Another project has that name"),
        (("rename", "default", ""), "name: Must be 1 to 60"),
        (("delete", "default"), "first project"),
        (("delete", "nothing"), "There is no project nothing"),
        (("add", "default", "nobody"), "name: Nobody has this name"),
        (("remove", "default", "nobody"), "nobody isn't a member of default"),
    ],
)
def test_it_says_why_not(arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        projects(*arguments)
    assert list(Project.objects.values_list("name", flat=True)) == ["default"]
