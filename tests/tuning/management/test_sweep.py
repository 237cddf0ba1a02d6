"""`manage.py sweep` shows that it is alive."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tests.live import ROOT, environment


def sweeping(env: dict[str, str], alive: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "manage.py", "sweep", "--alive", str(alive)]
    return subprocess.Popen(command, env=env, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def test_it_touches_a_file_while_it_works(database_env: dict[str, str], tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    with sweeping(database_env, alive) as sweep:
        deadline = time.monotonic() + 60
        while not alive.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        sweep.terminate()
    assert alive.exists()


def test_it_does_not_while_it_can_not_use_the_database(tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    with sweeping(environment(tmp_path / "var"), alive) as sweep:  # its database has no tables
        assert sweep.stdout
        said = [next(sweep.stdout) for _ in range(2)]
        sweep.terminate()
    assert "can't use the database" in said[1]
    assert not alive.exists()
