"""The callbacks under a real old TVM, while the site is killed and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live import ROOT, LiveSite

pytestmark = pytest.mark.tvm
LIMIT_S = 300


@pytest.fixture
def script(new_site: LiveSite, legacy_python: str, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    new_site.start()
    env = {**os.environ, "TUNEBOARD_TOKEN": new_site.token(), "TUNEBOARD_SPOOL": str(tmp_path / "spool")}
    command = [
        legacy_python,
        str(Path(__file__).with_name("old_tvm.py")),
        str(ROOT / "dashboard/client"),
        new_site.url,
        str(tmp_path),
    ]
    with subprocess.Popen(
        command, env={**env, "TOPHUB_LOCATION": "NONE"}, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        yield process
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def runs_of(site: LiveSite) -> dict[str, list[Any]]:
    """By engine."""
    code = "import json; from tuning.models import Run; print(json.dumps({run.engine: [run.status, run.trials_done, run.trials_failed, list(run.trials.order_by('number').values_list('number', flat=True)), run.tasks_total] for run in Run.objects.all()}))"
    found: dict[str, list[Any]] = json.loads(site.manage("shell", "--no-imports", "-c", code))
    return found


@pytest.mark.rare
def test_all_trials_are_there_once(
    script: subprocess.Popen[str], new_site: LiveSite, legacy_python: str, tmp_path: Path
) -> None:
    assert script.stdout
    lines = iter(script.stdout.readline, "")
    next(line for line in lines if line.strip() == "begun")
    assert new_site.process
    new_site.process.kill()  # Its children end with it.
    new_site.process.wait()
    next(line for line in lines if line.strip() == "half")
    (tmp_path / "go").touch()
    new_site.start()
    told = json.loads(next(line for line in lines if line.startswith("{")))
    assert script.wait(LIMIT_S) == 0
    sys.stdout.write(f"The callbacks took {told['spent_s']:.4f} of {told['tuned_s']:.1f} s under TVM {told['tvm']}.\n")
    # A busy machine's site may take longer to answer than the script waits at its end.
    spool = tmp_path / "spool"
    command = [legacy_python, str(ROOT / "dashboard/client/tuneboard.py"), new_site.url, str(spool)]
    subprocess.run(command, env={**os.environ, "TUNEBOARD_TOKEN": new_site.token()}, check=True, timeout=LIMIT_S)
    found = runs_of(new_site)
    for engine, count in zip(("autotvm", "auto_scheduler"), told["trials"], strict=True):
        status, done, failed, numbers, tasks = found[engine]
        assert (status, done, failed, tasks) == ("finished", count, 0, 1), engine
        assert numbers == [*range(1, count + 1)]
    assert not list(spool.iterdir())
