"""The callback under real TVMs with MetaSchedule: today's, and an old one, under which `test_old_tvm.py` runs it every day."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live import ROOT, LiveSite

pytestmark = pytest.mark.tvm
LIMIT_S = 600
READ = """
import json
from tuning.models import Run
run = Run.objects.filter(engine="meta_schedule", origin="streamed").latest("pk")
numbers = list(run.trials.order_by("number").values_list("number", flat=True))
tasks = {task.name: [task.weight, bool(task.flop), task.trials] for task in run.tasks.all()}
print(json.dumps([run.status, numbers, tasks]))
"""


@pytest.fixture(params=["today's", pytest.param("0.9", marks=pytest.mark.rare)])
def python(request: pytest.FixtureRequest) -> str:
    return sys.executable if request.param == "today's" else str(request.getfixturevalue("legacy_python"))


def test_all_trials_are_there_with_what_tvm_tells_of_their_tasks(
    python: str, live_site: LiveSite, tmp_path: Path
) -> None:
    script = Path(__file__).with_name("meta_schedule.py")
    client = ROOT / "dashboard/client"
    env = {**os.environ, "TUNEBOARD_TOKEN": live_site.token(), "TUNEBOARD_SPOOL": str(tmp_path / "spool")}
    command = [python, str(script), str(client), live_site.url, str(tmp_path)]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True, timeout=LIMIT_S)
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["records"] == 8
    # A busy machine's site may take longer to answer than the script waits at its end.
    sender = [python, str(client / "tuneboard.py"), live_site.url, str(tmp_path / "spool")]
    subprocess.run(sender, env=env, check=True, timeout=LIMIT_S)
    status, numbers, tasks = json.loads(live_site.manage("shell", "--no-imports", "-c", READ))
    assert (status, numbers) == ("finished", [*range(1, 9)])
    knows_flop = not told["tvm"].startswith("0.9.")
    assert tasks == {"small": [3, knows_flop, 4], "large": [1, knows_flop, 4]}
