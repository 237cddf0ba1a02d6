"""A database that an earlier Tuneboard filled is migrated without losing a row.

The dumps in tests/data hold tables and rows of commit 3cfb52b (migration tuning.0011), one by SQLite's `.dump`, one by
`pg_dump --inserts`.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.live import LiveSite

pytestmark = pytest.mark.both_databases
DUMPS = Path(__file__).parent.parent / "data"
LOAD = """
import pathlib
from django.db import connection
with connection.cursor() as cursor:
    cursor.execute(pathlib.Path({path!r}).read_text())
"""
READ = """
import json
from django.db import connection
rows = {}
with connection.cursor() as cursor:
    for table in connection.introspection.table_names(cursor):
        cursor.execute(f'SELECT * FROM "{table}"')
        names = [column[0] for column in cursor.description]
        rows[table] = {str(row[0]): dict(zip(names, map(str, row))) for row in cursor.fetchall()}
print(json.dumps(rows))
"""
GET = """
import json
from django.contrib.auth.models import User
from django.test import Client
from django.test.utils import setup_test_environment
setup_test_environment()
client = Client()
client.force_login(User.objects.get(username="grace"))
answers = [client.get(path) for path in {paths!r}]
print(json.dumps([(answer.status_code, answer.content.decode()) for answer in answers]))
"""
SIGN_IN = """
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
grace = User.objects.get(username="grace")
session = SessionStore()
session["_auth_user_id"] = str(grace.pk)
session["_auth_user_backend"] = "sesame.backends.ModelBackend"
session["_auth_user_hash"] = grace.get_session_auth_hash()
session.create()
print(session.session_key)
"""
LOOK = """
from django.test import Client
from django.test.utils import setup_test_environment
setup_test_environment()
client = Client()
client.cookies["tuneboard_session"] = {key!r}
print(client.get("/api/v1/runs").status_code)
"""
EARLIER = "0029"
"""The newest migration of a version whose processes may still write while the site is upgraded."""
ROWS = {
    "auth_user": 1,
    "dashboard_apitoken": 1,
    "tuning_benchmark": 1,
    "tuning_compilation": 2,
    "tuning_delivery": 2,
    "tuning_deviceturn": 2,
    "tuning_extractedtask": 2,
    "tuning_extraction": 2,
    "tuning_network": 3,
    "tuning_record": 5,
    "tuning_run": 5,
    "tuning_tag": 2,
    "tuning_task": 5,
    "tuning_trackersample": 2,
    "tuning_trial": 66,
    "tuning_trialerror": 5,
}


GROUPS = ("auth_group", "auth_group_permissions", "auth_user_groups")
"""The roles of before, which are memberships of a project now."""
MIXED = """
from django.contrib.auth.models import Group, User
people = {name: User.objects.create(username=name) for name in ("ada", "both", "look", "none")}
for name, groups in {"ada": ["admin"], "both": ["viewer", "operator"], "look": ["viewer"]}.items():
    people[name].groups.set([Group.objects.get_or_create(name=group)[0] for group in groups])
"""
PROJECTS = """
import json
from tuning.models import Membership, Network, Project, Run
print(json.dumps({
    "projects": list(Project.objects.values_list("name", "shared")),
    "members": list(Membership.objects.values_list("user__username", "role")),
    "runs": sorted(set(Run.everything.values_list("project__name", flat=True))),
    "networks": sorted(set(Network.objects.values_list("kind", "project__name"))),
}))
"""
ROLES = """
import json
from django.contrib.auth.models import User
from dashboard.accounts import role_of
print(json.dumps({user.username: role_of(user) for user in User.objects.all()}))
"""


TWO_MACHINES = """
import json
from django.conf import settings
from tuning.actions.machines.registering import register
from tuning.models import Run
settings.DEVICES, settings.MACHINE = ["cpu", "cuda:0"], "lab-1"
first = register()
def next_of(machine):
    run = Run.objects.next_for("cuda:0", machine)
    return run and run.name
alone = next_of(first)
settings.VAR, settings.MACHINE = settings.VAR / "other", "lab-2"
settings.VAR.mkdir()
print(json.dumps([alone, next_of(register()), next_of(first)]))
"""


COLUMNS = """
import json
from django.db import connection
with connection.cursor() as cursor:
    known = {
        table: {
            column.name: column.null_ok or column.default is not None
            for column in connection.introspection.get_table_description(cursor, table)
        }
        for table in connection.introspection.table_names(cursor)
    }
print(json.dumps(known))
"""
WATCH = """
import json
from tuning.actions.checking import checks
check = checks.create({"run": 2, "name": "nightly", "how": "benchmark"}, None)
print(json.dumps([check.device, check.newest_library().pk]))
"""


def run_code(site: LiveSite, code: str) -> str:
    return site.manage("shell", "-v", "0", "--no-imports", "-c", code)


def rows_of(site: LiveSite) -> dict[str, dict[str, dict[str, str]]]:
    """Table → primary key → column → value."""
    rows: dict[str, dict[str, dict[str, str]]] = json.loads(run_code(site, READ))
    return rows


def get(site: LiveSite, *paths: str) -> list[tuple[int, str]]:
    return [(status, text) for status, text in json.loads(run_code(site, GET.format(paths=paths)))]


def fill(site: LiveSite) -> None:
    """Give a site that was never started the database as commit 3cfb52b left it."""
    site.var.mkdir()
    if "DATABASE_URL" in site.env:
        run_code(site, LOAD.format(path=str(DUMPS / "filled_postgresql.sql")))
    else:
        with sqlite3.connect(site.var / "tuneboard.sqlite3") as database:
            database.executescript((DUMPS / "filled_sqlite.sql").read_text())
        database.close()


@pytest.fixture
def filled(empty_site: LiveSite) -> LiveSite:
    """A site that isn't running, filled by an earlier version."""
    fill(empty_site)
    return empty_site


def test_no_row_is_lost_and_pages_and_api_show_them(filled: LiveSite) -> None:
    before = rows_of(filled)
    assert {table: len(before[table]) for table in ROWS} == ROWS
    filled.manage("migrate", "tuning", EARLIER, "--verbosity", "0")
    earlier = json.loads(run_code(filled, COLUMNS))
    filled.manage("migrate", "--verbosity", "0")
    assert_written_by(earlier, json.loads(run_code(filled, COLUMNS)))
    after = rows_of(filled)
    kept = {
        table: {key: {column: after[table].get(key, {}).get(column) for column in row} for key, row in rows.items()}
        for table, rows in before.items()
    }
    assert {table for table in before if kept[table] != before[table]} <= {*GROUPS}
    watched = "what is new can be done with what is old"
    assert json.loads(run_code(filled, WATCH)) == ["cpu", 2], watched
    assert_shown(filled)
    what = "what was queued is taken by the machine that it was queued on, and by no other, which may lack instructions"
    assert json.loads(run_code(filled, TWO_MACHINES)) == ["queued", None, "queued"], what


def assert_written_by(before: dict[str, dict[str, bool]], after: dict[str, dict[str, bool]]) -> None:
    """A site is upgraded while processes of before still write, and these leave the new columns out of their rows."""
    new = {
        f"{table}.{name}": may_lack
        for table in before
        for name, may_lack in after[table].items()
        if table.startswith("tuning_") and name not in before[table]
    }
    assert {
        "tuning_run.tasks_confirmed",
        "tuning_run.cold_bytes",
        "tuning_task.cold_bytes",
        "tuning_round.again_s",
    } <= new.keys()
    assert [name for name, may_lack in new.items() if not may_lack] == []


@pytest.mark.rare
def test_everything_goes_into_one_project_where_everybody_may_do_what_they_could(filled: LiveSite) -> None:
    run_code(filled, MIXED)
    filled.manage("migrate", "--verbosity", "0")
    found = json.loads(run_code(filled, PROJECTS))
    assert found["projects"] == [["default", True]], "operators could stop each other's runs"
    assert found["members"] == [["both", "operator"], ["grace", "operator"], ["look", "viewer"]]
    assert found["runs"] == ["default"]
    assert found["networks"] == [["builtin", None], ["onnx", "default"]]
    roles = json.loads(run_code(filled, ROLES))
    assert roles == {"ada": "admin", "both": "operator", "grace": "operator", "look": "viewer", "none": None}


@pytest.mark.rare
def test_a_site_that_has_people_only_is_not_new(empty_site: LiveSite) -> None:
    empty_site.var.mkdir()
    empty_site.manage("migrate", "tuning", "0013", "--verbosity", "0")
    empty_site.manage("migrate", "auth", "--verbosity", "0")
    run_code(empty_site, 'from django.contrib.auth.models import User; User.objects.create(username="ada")')
    empty_site.manage("migrate", "--verbosity", "0")
    assert json.loads(run_code(empty_site, PROJECTS))["projects"] == [["default", True]]


def test_on_a_new_site_people_stop_their_own_runs(new_site: LiveSite) -> None:
    assert json.loads(run_code(new_site, PROJECTS))["projects"] == [["default", False]]


def assert_shown(site: LiveSite) -> None:
    site.manage("collectstatic", "--no-input", "--verbosity", "0")
    pages = {
        "/runs/": ["made up: 60 trials", "measured", "failed", "queued", "paper: figure 3"],
        "/runs/2/": ["measured", "<strong>tiled</strong>", "baseline", "fused_matmul1"],
        "/runs/1/trials/": ["made up: 60 trials", 'data-role="trials-done">60<'],
        "/networks/": ["uploaded"],
        "/compilations/1/": ["measured"],
        "/compare/?runs=2,3": ["measured", "failed"],
        "/regressions/": ["nightly", "not measured yet"],
    }
    for (path, words), (status, page) in zip(pages.items(), get(site, *pages), strict=True):
        assert status == 200, path
        assert [word for word in words if word not in page] == [], path
    runs, trials, removed = (
        (status, json.loads(text))
        for status, text in get(site, "/api/v1/runs", "/api/v1/runs/2/trials", "/api/v1/runs/5")
    )
    assert (runs[0], names_in(runs[1])) == (200, ["queued", "failed", "measured", "made up: 60 trials"])
    assert (trials[0], trials[1]["latency_s"]) == (200, [2e-3, 3e-3, None, 2.5e-3, 1e-3, 1.5e-3])
    assert removed[0] == 404


def names_in(answer: dict[str, Any]) -> list[str]:
    return [run["name"] for run in answer["items"]]


@pytest.mark.rare
def test_the_keys_of_earlier_sessions_sign_nobody_in(filled: LiveSite) -> None:
    key = run_code(filled, SIGN_IN).strip()
    filled.manage("migrate", "dashboard", "0004", "--verbosity", "0")
    assert key in run_code(filled, READ)
    filled.manage("migrate", "--verbosity", "0")
    assert key not in run_code(filled, READ)
    assert run_code(filled, LOOK.format(key=key)).strip() == "401"
