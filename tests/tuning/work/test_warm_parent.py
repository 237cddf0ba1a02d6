"""Engines forked from a warm parent behave like newly started ones, and nothing of one run is left for the next."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.conf import settings
from pytest_django.fixtures import Settings

from tests.engine_fixtures import Play
from tests.live import LiveSite
from tests.threads import when
from tests.tuning.engines.pooling import pool_start
from tests.world import claimed, extracted, make_run, trial
from tuning.actions import runs
from tuning.engines.wire.options.meta_schedule import Options
from tuning.engines.wire.pools.messages import FakeDevice, Ready
from tuning.engines.wire.protocol import VERSION, Finished, Hello, NetworkSpec, Start
from tuning.models import Run
from tuning.work import engine_process
from tuning.work.pool import measuring
from tuning.work.pool.measuring import Forked, Measuring
from tuning.work.supervisor import supervise
from tuning.work.warm_parent import WarmParent

HELLO = Hello(version=VERSION, engine="fake", pid=1, versions={})
BEGINNING = (HELLO, extracted(1), trial(0))
FAKE = "tests.fake_engine"
POOL = pool_start("lab-1", {"kind": "llvm"}, fake=FakeDevice())
pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.one_database,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="warm parents need Linux"),
]


@pytest.fixture
def warm(play: Play) -> Iterator[WarmParent]:
    """Keep a warm parent of the fake engine in this process, as a worker does."""
    engine_process.keep_warm("llvm")
    yield engine_process.WARM[FAKE]
    engine_process.WARM.pop(FAKE).stop()


def tune(**values: Any) -> Run:
    run = claimed(make_run(**values))
    supervise(run, threading.Event())
    run.refresh_from_db()
    return run


def below(warm: WarmParent) -> list[psutil.Process]:
    assert warm.pid
    return psutil.Process(warm.pid).children(recursive=True)


def ended(processes: list[psutil.Process]) -> bool:
    return not psutil.wait_procs(processes, timeout=20)[1]


def test_each_run_finds_the_process_as_the_first_one_did(warm: WarmParent, play: Play) -> None:
    play(HELLO, extracted(1), {"do": "tell"}, trial(0), Finished("budget"))
    told, parents = [], set()
    for _ in range(3):
        run = tune(trials_budget=1)
        assert (run.status, run.trials_done) == ("finished", 1)
        told.append(json.loads(run.console_log.read_text()))
        parents.add(warm.pid)
    assert len(parents) == 1
    drawn = [[said.pop(name) for said in told] for name in ("random", "numpy")]
    assert all(len(set(numbers)) == 3 for numbers in drawn), "runs drew the same numbers"
    assert None not in drawn[1], "NumPy isn't loaded: the engine was started, not forked"
    assert told == told[:1] * 3
    # stdin, stdout, stderr, events, and the folder that is being listed.
    assert len(told[0].pop("fds")) == 5
    default = str(signal.SIG_DFL)
    assert told[0] == {"session": True, "handlers": [default, default], "threads": 1, "seen": None}


def test_a_machine_of_a_pool_gets_its_measuring_process_from_it(warm: WarmParent) -> None:
    heard: queue.Queue[Any] = queue.Queue()
    with measuring.forked() as process:
        assert process
        inherited = Forked(process.pid, *map(os.dup, process.file_descriptors()))
    mine = Measuring(POOL, heard.put, inherited)
    assert [type(heard.get(timeout=60)) for _ in range(2)] == [Hello, Ready]
    mine.close()
    assert heard.get(timeout=60) is None
    assert ended(below(warm))


def test_a_measuring_process_that_nobody_takes_over_ends(warm: WarmParent) -> None:
    with measuring.forked() as process:
        assert process
        assert psutil.pid_exists(process.pid)
    assert ended(below(warm))


def test_without_a_parent_none_is_passed_on() -> None:
    before = psutil.Process().num_fds()
    with measuring.forked() as process:
        assert process is None
    assert psutil.Process().num_fds() == before


def test_the_parent_keeps_nothing_of_a_run(warm: WarmParent, play: Play) -> None:
    play(*BEGINNING, Finished("budget"))
    tune(trials_budget=1)
    assert warm.pid
    process = psutil.Process(warm.pid)
    before = process.num_fds(), process.num_threads()
    for _ in range(20):
        tune(trials_budget=1)
    assert ended(below(warm))
    assert (process.num_fds(), process.num_threads()) == before
    assert process.pid == warm.pid


@pytest.mark.parametrize(
    ("deed", "says"),
    [({"do": "exit", "status": 3}, "exit status 3 "), ({"do": "kill"}, "killed by SIGKILL")],
)
def test_the_supervisor_learns_how_an_engine_ended(warm: WarmParent, play: Play, deed: Any, says: str) -> None:
    play(*BEGINNING, deed)
    run = tune()
    assert (run.status, run.trials_done) == ("failed", 1)
    assert says in str(run.error)
    assert ended(below(warm))


def test_a_run_outlives_its_parent_and_the_next_one_gets_another(warm: WarmParent, play: Play) -> None:
    play(*BEGINNING, {"do": "sleep", "seconds": 1.0}, trial(0), {"do": "exit", "status": 7})
    first = warm.pid
    assert first
    killer = when(Run.objects.filter(trials_done=1).exists, lambda: os.kill(first, signal.SIGKILL))
    run = tune()
    killer.join(60)
    assert run.trials_done == 2
    assert "exit status 7 " in str(run.error)
    play(*BEGINNING, {"do": "tell"}, Finished("budget"))
    run = tune(trials_budget=1)
    assert run.status == "finished"
    assert json.loads(run.console_log.read_text())["numpy"]
    assert warm.pid not in (None, first)


def test_an_unknown_exit_status_is_reported(warm: WarmParent, play: Play) -> None:
    play(*BEGINNING, {"do": "sleep", "seconds": 1.0}, {"do": "exit", "status": 7})

    def kill_minder() -> None:
        assert warm.pid
        for process in psutil.Process(warm.pid).children():
            process.kill()

    killer = when(Run.objects.filter(trials_done=1).exists, kill_minder)
    run = tune()
    killer.join(60)
    assert (run.status, run.trials_done) == ("failed", 1)
    assert "exit status isn't known" in str(run.error)


@pytest.fixture
def own_sources(settings: Settings, tmp_path: Path) -> Path:
    """A copy of the sources that warm parents load: tests that run at the same time have theirs from the original."""
    shutil.copytree(settings.BASE_DIR / "tuning", tmp_path / "site" / "tuning")
    (tmp_path / "site" / "tests").symlink_to(settings.BASE_DIR / "tests")
    settings.BASE_DIR = tmp_path / "site"
    return tmp_path / "site"


def test_a_parent_that_is_out_of_date_is_replaced(own_sources: Path, warm: WarmParent, play: Play) -> None:
    play(*BEGINNING, {"do": "tell"}, Finished("budget"))
    tune(trials_budget=1)
    first = warm.pid
    (own_sources / "tuning/engines/forking/parent.py").touch()
    run = tune(trials_budget=1)
    assert run.status == "finished"
    assert json.loads(run.console_log.read_text())["numpy"]
    assert warm.pid not in (None, first)


def test_a_run_starts_without_a_parent_that_cannot_load(
    play: Play, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    play(*BEGINNING, Finished("budget"))
    monkeypatch.setitem(engine_process.WARM, FAKE, WarmParent("tests.no_such_engine", "llvm"))
    assert tune(trials_budget=1).status == "finished"
    assert "starts its engine without it" in caplog.text


@pytest.mark.parametrize("ready", [False, True])
def test_a_run_starts_without_a_parent_that_hangs(
    play: Play, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, ready: bool
) -> None:
    play(*BEGINNING, Finished("budget"))
    hanging = WarmParent(FAKE, "llvm")
    says = "end = socket.socket(fileno=int(sys.argv[-1])); end.send(b'ready')" if ready else "pass"
    hanging._command = [sys.executable, "-c", f"import socket, sys, time; {says}; time.sleep(600)"]
    monkeypatch.setattr("tuning.work.warm_parent.WAIT_S", 2.0)
    monkeypatch.setitem(engine_process.WARM, FAKE, hanging)
    assert tune(trials_budget=1).status == "finished"
    assert ("doesn't answer" if ready else "isn't loaded") in caplog.text
    assert (hanging.pid is None) == ready
    hanging.stop()


WORKER = """
import os, time, django
django.setup()
from tuning.work.warm_parent import WarmParent
parent = WarmParent("tests.fake_engine", "llvm")
log, events = os.open(os.devnull, os.O_WRONLY), os.pipe()
engine = parent.fork(log, events[1])
print(parent.pid, engine.pid, flush=True)
time.sleep(600)
"""


def test_it_ends_with_its_worker_however_that_ends(database_env: dict[str, str], play: Play) -> None:
    env = database_env | {"TVM_FAKE_ENGINE_SCRIPT": os.environ["TVM_FAKE_ENGINE_SCRIPT"]}
    command = [sys.executable, "-c", WORKER]
    with subprocess.Popen(command, env=env, cwd=settings.BASE_DIR, stdout=subprocess.PIPE) as worker:
        assert worker.stdout
        family = [psutil.Process(int(pid)) for pid in worker.stdout.readline().split()]
        assert len(family) == 2
        worker.kill()
    assert ended(family)


@pytest.mark.rare
@pytest.mark.tvm
def test_twenty_runs_leave_no_memory_in_the_parent(warm_tvm: WarmParent, tmp_path: Path) -> None:
    memory = [memory_after_run(warm_tvm, tmp_path / str(number)) for number in range(20)]
    highest = accumulate(memory, max)
    # The allocator may take a page now and then; what runs leave takes some with most of them.
    assert sum(after > before for before, after in pairwise(highest)) < 7, memory


def memory_after_run(warm: WarmParent, work_dir: Path) -> int:
    """Bytes that the parent has allocated, once a tiny run has ended."""
    options = Options(strategy="replay-trace", trials_per_batch=1, seed=1, min_repeat_ms=0, cost_model="random")
    network = NetworkSpec("matmul", {"n": 16})
    start = Start(1, network, "this", options, 1, 0, 0.0, str(work_dir))
    with engine_process.EngineProcess("meta_schedule", start, work_dir / "console") as engine:
        said = []
        while not engine.ended:
            said += engine.read(1.0)
        assert said[-1] == Finished("budget"), (work_dir / "console").read_text()
    assert ended(below(warm))
    assert warm.pid
    assert psutil.Process(warm.pid).num_threads() == 1
    memory = psutil.Process(warm.pid).memory_info()
    return int(memory.rss - memory.shared)  # Without pages mapped from files, which come and go.


@pytest.mark.tvm
@pytest.mark.parametrize("whom", [pytest.param("engine", marks=pytest.mark.rare), "parent"])
def test_a_kill_in_mid_run_leaves_no_process_and_loses_no_trial(warm_tvm: WarmParent, whom: str) -> None:
    small = {"network": "matmul", "network_options": {"n": 64}, "trials": 8, "trials_per_batch": 4, "seed": 1}
    run = runs.launch(small | {"strategy": "replay-trace", "min_repeat_ms": 200}, None, enqueue=False)
    family: list[psutil.Process] = []

    def kill() -> None:
        family.extend(below(warm_tvm))
        (engine,) = (process.pid for process in family if os.getsid(process.pid) == process.pid)
        os.kill(engine if whom == "engine" else warm_tvm.pid or 0, signal.SIGKILL)

    killer = when(Run.objects.filter(trials_done__gte=2).exists, kill)
    supervise(claimed(run), threading.Event())
    killer.join(60)
    run.refresh_from_db()
    assert ended(family)
    if whom == "engine":
        assert (run.status, run.trials_done < 8) == ("failed", True)
        assert "killed by SIGKILL" in str(run.error)
        runs.resume(run)
        supervise(claimed(run), threading.Event())
        run.refresh_from_db()
    assert (run.status, run.trials_done) == ("finished", 8)
    assert list(run.trials.values_list("number", flat=True)) == list(range(1, 9))


@pytest.mark.tvm
def test_two_runs_of_a_site_are_forked_from_one_parent_and_leave_nothing_behind(new_site: LiveSite) -> None:
    new_site.start()
    token = new_site.token()
    (worker,) = new_site.processes("tuning.queue.worker", "device.cpu")
    new_site.wait_for(worker.children, 60)
    (warm,) = worker.children()
    tune_on(new_site, token)
    new_site.wait_for(lambda: not warm.children(), 60)
    fds = warm.num_fds()  # not before: while it loads it has files open
    tune_on(new_site, token)
    new_site.wait_for(lambda: not warm.children() and warm.num_fds() <= fds, 60)
    assert worker.children() == [warm]
    assert new_site.stop() == 0
    assert not warm.is_running()


def tune_on(site: LiveSite, token: str) -> None:
    small = {"network": "matmul", "network_options": {"n": 32}, "trials": 4, "trials_per_batch": 4, "min_repeat_ms": 1}
    status, run = site.api("POST", "/runs", small | {"strategy": "replay-trace"}, token=token)
    assert status == 201, run

    def now() -> Any:
        return site.api("GET", f"/runs/{run['id']}", token=token)[1]

    site.wait_for(lambda: now()["finished_at"], 180)
    assert (now()["status"], now()["trials_done"]) == ("finished", 4), now()["error"]
