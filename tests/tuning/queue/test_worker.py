"""`python -m tuning.queue.worker` starts a worker without the modules that it never needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.live import ROOT, environment

HEAVY = {
    *("dashboard.urls", "ninja", "pydantic", "pygments", "rich"),  # pages
    *("celery.bin.celery", "click_repl", "prompt_toolkit"),  # shells
    *("numpy", "onnx", "plotly", "pyarrow", "tvm"),
}
LOADS = """
import sys
import tuning.queue.worker
tuning.queue.worker.app.loader.import_default_modules()
print(*sys.modules)
"""


def test_it_loads_the_jobs_and_not_the_pages(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LOADS]
    loaded = subprocess.run(command, env=environment(tmp_path), cwd=ROOT, capture_output=True, text=True, check=True)
    modules = set(loaded.stdout.split())
    assert "tuning.queue.jobs" in modules
    assert modules & HEAVY == set()
