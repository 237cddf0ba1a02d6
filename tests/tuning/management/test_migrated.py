"""Commands start in little time: they don't load the code of all pages."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.live import ROOT

PAGES = {"dashboard.api", "dashboard.urls", "ninja", "plotly"}
RUN = """
import sys
from django.core.management import execute_from_command_line
execute_from_command_line(["manage.py", *sys.argv[1:]])
print(*sys.modules)
"""


@pytest.mark.one_database
@pytest.mark.django_db(transaction=True)
def test_even_a_url_is_printed_without_the_pages(database_env: dict[str, str]) -> None:
    command = [sys.executable, "-c", RUN, "login_url", "--base", "http://localhost:8000"]
    done = subprocess.run(command, env=database_env, cwd=ROOT, capture_output=True, text=True, check=True)
    url, modules = done.stdout.splitlines()
    assert url.startswith("http://localhost:8000/login/?")
    assert "django.core.checks" in modules.split()
    assert PAGES.isdisjoint(modules.split())
