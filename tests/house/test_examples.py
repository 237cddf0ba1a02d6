"""The scripts of docs/examples do what docs/stock_tvm.md says, with TVM alone and without Tuneboard."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.files import File

from tests.models import convnet
from tests.tuning.engines.convnets import of_videos
from tests.world import make_user
from tuning.actions import runs
from tuning.actions.networks import uploading
from tuning.models import Project, Run
from tuning.reads import downloads
from tuning.work.supervisor import supervise

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.tvm, pytest.mark.rare]
TRIALS = 12


def alone(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Runs Python with the installed packages but without PYTHONPATH, in another folder."""
    return subprocess.run(
        [sys.executable, "-I", *args], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def figures(folder: Path, script: str, *args: str) -> Any:
    done = alone(folder, str(Path(settings.BASE_DIR, "docs/examples", script)), *args, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(params=[convnet, lambda: of_videos().made()], ids=["as given", "channels last"])
def tuned(tmp_path: Path, request: pytest.FixtureRequest) -> Run:
    """A briefly tuned uploaded network of four tasks; its file and records are in `tmp_path`."""
    (tmp_path / "net.onnx").write_bytes(request.param().SerializeToString())
    with (tmp_path / "net.onnx").open("rb") as file:
        uploading.upload(File(file, "net.onnx"), Project.objects.default(), make_user("operator"))
    wanted = {"network": "net", "trials": TRIALS, "trials_per_batch": 4, "min_repeat_ms": 10, "seed": 1}
    run = runs.launch(wanted, None, enqueue=False)
    assert run.claim()
    supervise(run, threading.Event())
    run.refresh_from_db()
    assert (run.status, run.tasks_measured) == ("finished", 4), run.error
    for which in ("best", "all"):
        data = b"".join(downloads.record_file(run, "native", which).pieces)
        zipfile.ZipFile(io.BytesIO(data)).extractall(tmp_path / which)
    return run


def test_tuneboard_cannot_be_imported_where_they_run(tmp_path: Path) -> None:
    done = alone(tmp_path, "-c", "import tuning")
    assert "No module named 'tuning'" in done.stderr


def test_stock_tvm_builds_and_runs_what_was_downloaded(tuned: Run, tmp_path: Path) -> None:
    best = sorted(task.best_latency_s or 0 for task in tuned.tasks.all())
    for which in ("best", "all"):
        found = figures(tmp_path, "stock_tvm.py", which)
        assert sorted(one["recorded_s"] for one in found) == pytest.approx(best, rel=1e-9)
        assert all(one["measured_s"] > 0 for one in found)

    whole = figures(tmp_path, "stock_network.py", "net.onnx", "best")
    assert (len(whole["tuned"]), whole["untuned"]) == (4, [])
    assert whole["max_abs_error"] < 1e-4
    assert whole["tuned_s"] > 0
