"""Child processes: kept running, terminated, killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tuning.host import processes
from tuning.host.processes import Child, stop

SLEEPS = "import time; print('up', flush=True); time.sleep(600)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
HAS_A_CHILD_OF_ITS_OWN = f"""
import subprocess, sys
subprocess.Popen([sys.executable, "-c", {SLEEPS!r}], start_new_session=True).wait()
"""
ENDS_AT_ONCE = "print('why'); raise SystemExit(3)"


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[str], Child]]:
    made: list[Child] = []

    def child(program: str) -> Child:
        made.append(Child("it", [sys.executable, "-c", program], os.environ, tmp_path / "logs" / "it.log"))
        return made[-1]

    yield child
    stop(made, grace_s=0)


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_up(child: Child) -> bool:
    return child.log.exists() and "up" in child.log.read_text()


def test_a_child_that_obeys_is_terminated(make: Callable[[str], Child]) -> None:
    child = make(SLEEPS)
    child.start()
    wait_for(lambda: is_up(child))
    assert child.ending == "is running"
    stop([child])
    assert child.ending == "was killed by SIGTERM"


def test_a_child_that_ignores_sigterm_is_killed(make: Callable[[str], Child]) -> None:
    child = make(DEAF)
    child.start()
    wait_for(lambda: is_up(child))
    stop([child], grace_s=0.2)
    assert child.ending == "was killed by SIGKILL"


def test_processes_that_a_child_leaves_behind_are_killed(make: Callable[[str], Child]) -> None:
    child = make(HAS_A_CHILD_OF_ITS_OWN)
    child.start()
    wait_for(lambda: is_up(child))
    assert child.process
    grandchild = psutil.Process(child.process.pid).children()[0]
    stop([child])
    assert not grandchild.is_running()


def test_a_crashed_child_is_restarted_after_growing_pauses(
    make: Callable[[str], Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    child = make(ENDS_AT_ONCE)
    child.start()
    said = []
    for pause in (1.0, 2.0, 4.0):
        wait_for(lambda: not child.running)
        said.append(child.watch())
        assert child.watch() is None, "it reports a crash once"
        assert not child.running
        now = time.monotonic() + pause
        with monkeypatch.context() as later:
            later.setattr(time, "monotonic", lambda now=now: now)
            child.watch()
    assert said == [f"it ended with status 3; restarting it in {s} s (see {child.log})" for s in (1, 2, 4)]
    wait_for(lambda: not child.running)
    assert child.last_lines() == "why\nwhy\nwhy\nwhy"


def test_a_child_that_ran_for_a_while_is_restarted_soon(make: Callable[[str], Child]) -> None:
    child = make(ENDS_AT_ONCE)
    child.start()
    wait_for(lambda: not child.running)
    child.pause_s = 30.0
    child.started_at -= processes.STEADY_S + 1
    assert "in 1 s" in str(child.watch())


def test_a_large_log_is_put_aside(make: Callable[[str], Child], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "LARGEST_LOG", 2)
    child = make(ENDS_AT_ONCE)
    for _ in range(2):
        child.start()
        wait_for(lambda: not child.running)
    assert child.log.read_text() == "why\n"
    assert child.log.with_suffix(".old.log").read_text() == "why\n"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux ends children with their parent")
def test_children_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    parent = f"""
import os, pathlib, sys, time
from tuning.host.processes import Child
child = Child("it", [sys.executable, "-c", {SLEEPS!r}], os.environ, pathlib.Path({str(tmp_path / "it.log")!r}))
child.start()
print(child.process.pid, flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        child = psutil.Process(int(process.stdout.readline()))
        process.kill()
    wait_for(lambda: not child.is_running())
