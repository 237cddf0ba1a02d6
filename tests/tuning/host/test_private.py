"""Files that only the site's user may read."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dashboard import checks
from tuning.host.private import keep_private

PROGRAM = """
import django
django.setup()
from django.conf import settings
(settings.VAR / "runs" / "1").mkdir(parents=True)
(settings.VAR / "runs" / "1" / "console.log").write_text("secret")
from django.core.management import call_command
call_command("migrate", verbosity=0)
"""


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    """Restored afterwards."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): oct(path.stat().st_mode & 0o777) for path in folder.rglob("*")}


def test_what_a_process_of_the_site_writes_is_private(tmp_path: Path, project_root: Path) -> None:
    var = tmp_path / "var"
    env = {"PATH": os.environ["PATH"], "TUNEBOARD_VAR": str(var), "DJANGO_SETTINGS_MODULE": "dashboard.settings"}
    subprocess.run([sys.executable, "-c", PROGRAM], env=env, cwd=project_root, check=True)
    found = modes(tmp_path)
    assert {"var/tuneboard.sqlite3", "var/secret_key", "var/runs/1/console.log"} <= found.keys()
    assert {name for name, mode in found.items() if not mode.endswith("00")} == set()


def test_an_earlier_installation_is_repaired(tmp_path: Path) -> None:
    var, outside = tmp_path / "var", tmp_path / "outside"
    (var / "logs").mkdir(parents=True)
    for path in (var / "logs" / "web.log", var / "tuneboard.sqlite3", outside):
        path.write_text("x")
    (var / "tool").write_text("#!")
    (var / "tool").chmod(0o755)
    (var / "link").symlink_to(outside)
    keep_private(var)
    assert oct(var.stat().st_mode & 0o777) == "0o700"
    expected = {
        "logs": "0o700",
        "logs/web.log": "0o600",
        "tuneboard.sqlite3": "0o600",
        "tool": "0o700",
        "link": "0o644",
    }
    assert modes(var) == expected


def test_a_folder_that_all_users_share_is_left_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    keep_private(tmp_path)
    assert tmp_path.stat().st_mode & 0o7777 == 0o1777


def test_the_deployment_check_warns_of_an_open_folder(tmp_path: Path, settings: Any) -> None:
    settings.VAR = tmp_path
    tmp_path.chmod(0o755)
    (warning,) = checks.private_folder()
    assert str(tmp_path) in warning.msg
    keep_private(tmp_path)
    assert checks.private_folder() == []
