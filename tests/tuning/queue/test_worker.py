"""`python -m tuning.queue.worker` starts a worker without the modules that it never needs, and shows that it is alive."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from tests.live import ROOT, environment
from tuning.engines.wire.lifeline import die_with
from tuning.host import valkey
from tuning.queue.worker import PULSE_S

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


def started(command: list[str], env: dict[str, str]) -> subprocess.Popen[bytes]:
    tests = os.getpid()
    return subprocess.Popen(
        command,
        env=env,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: die_with(tests),  # noqa: PLW1509 - there are no threads here
    )


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_it_touches_a_file_while_it_takes_jobs(tmp_path: Path) -> None:
    alive, var = tmp_path / "alive", tmp_path / "var"
    var.mkdir()
    valkey.prepare(var)
    broker = started(valkey.command(var), {})
    command = [sys.executable, "-m", "tuning.queue.worker", "compile", "compile", "--alive", str(alive)]
    worker = started(command, environment(var))
    try:
        wait_for(alive.exists)
        os.utime(alive, (0, 0))
        wait_for(lambda: alive.stat().st_mtime > 0)

        broker.kill()
        broker.wait()
        wait_for(lambda: not alive.exists())
        valkey.prepare(var)
        broker = started(valkey.command(var), {})
        wait_for(alive.exists)

        worker.send_signal(signal.SIGSTOP)  # hangs
        wait_for(lambda: psutil.Process(worker.pid).status() == psutil.STATUS_STOPPED)
        os.utime(alive, (0, 0))
        time.sleep(PULSE_S + 1)
        assert alive.stat().st_mtime == 0
        worker.send_signal(signal.SIGCONT)
        worker.terminate()
        worker.wait()
        assert not alive.exists()
    finally:
        worker.kill()
        worker.wait()
        broker.kill()
        broker.wait()
