"""What sandboxed processes can't reach, whatever an upload makes them do."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.conf import settings

from dashboard import checks
from tests import hostile_acts
from tests.hostile_acts import ALLOWED, ATTEMPTS, WITHOUT_NAMESPACES
from tests.tuning.engines import compiling
from tests.tuning.engines.running import Engine, start
from tuning.engines.confinement import landlock
from tuning.engines.wire import showing
from tuning.engines.wire.compiling import Build, Built
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.protocol import Failed, ModelFile, NetworkSpec
from tuning.engines.wire.question import InForce
from tuning.engines.wire.targets import Resolve, TargetInfo
from tuning.host import sandbox, valkey
from tuning.work import inspection


@pytest.fixture
def port() -> Iterator[int]:
    """Where somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


needs_landlock = pytest.mark.skipif(landlock.version() < landlock.SCOPES_SINCE, reason="this kernel has no Landlock 6")


def prepared(monkeypatch: pytest.MonkeyPatch, var: Path, port: int, valkey_of: Path = settings.VAR) -> None:
    (var / "secret_key").write_text("secret")
    monkeypatch.setenv("TVM_HOSTILE_SLEEP", f"600.{uuid.uuid4().int}")
    monkeypatch.setenv("TVM_HOSTILE_VAR", str(var))
    monkeypatch.setenv("TVM_HOSTILE_PORT", str(port))
    monkeypatch.setenv("TVM_HOSTILE_SOCKET", str(valkey.socket_path(valkey_of)))


def attempted() -> set[str]:
    """What of it succeeded."""
    question = Resolve(target="this", remote=False, **sandbox.limits())
    return set(sandbox.ask_once("tests.hostile_child", question, TargetInfo).target)


def wrongly(done: set[str]) -> set[str]:
    """What succeeded and must not. Namespaces aren't offered by every machine; `check --deploy` says so."""
    return (done & ATTEMPTS.keys()) - (set() if sandbox.in_force().processes else WITHOUT_NAMESPACES)


def left_behind() -> list[psutil.Process]:
    found = psutil.process_iter(["cmdline"])
    return [process for process in found if os.environ["TVM_HOSTILE_SLEEP"] in (process.info["cmdline"] or ())]


@needs_landlock
def test_hostile_code_reaches_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, port: int) -> None:
    prepared(monkeypatch, tmp_path, port)
    monkeypatch.chdir(tmp_path)  # The path of a socket is short.
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind("socket")
        server.listen()
        done = attempted()
    assert wrongly(done) == set()
    assert ALLOWED.keys() - done == set()
    assert left_behind() == []


@pytest.fixture
def no_namespaces(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sandboxed processes may make none."""
    command = sandbox._command
    through = [sys.executable, "-m", "tests.without_namespaces"]
    monkeypatch.setattr(sandbox, "_command", lambda *asked: [*through, *command(*asked)])
    sandbox.in_force.cache_clear()
    yield
    sandbox.in_force.cache_clear()


@needs_landlock
@pytest.mark.usefixtures("no_namespaces")
def test_hostile_code_reaches_little_without_namespaces(
    monkeypatch: pytest.MonkeyPatch, project_root: Path, port: int
) -> None:
    var = project_root / "var" / "of-tests"
    var.mkdir(parents=True, exist_ok=True)
    prepared(monkeypatch, var, port)
    done = attempted()
    for process in left_behind():
        process.kill()
    shutil.rmtree(var)
    assert sandbox.in_force().processes is None
    assert wrongly(done) == set()
    assert ALLOWED.keys() - done == set()


@needs_landlock
@pytest.mark.usefixtures("no_namespaces")
def test_it_says_what_is_in_force_without_namespaces() -> None:
    """Landlock covers neither modes nor times, and the filter refuses all sockets of networks."""
    found = sandbox.in_force()
    assert (found.network, found.ipc, found.calls) == ("system call filter",) * 3
    assert (found.metadata, found.processes) == (None, None)


@needs_landlock
def test_nothing_outlives_the_time_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, port: int) -> None:
    """Neither the process, which ignores that it should end, nor what it started in sessions of their own."""
    if not sandbox.in_force().processes:
        pytest.skip("this machine offers no namespace for processes")
    prepared(monkeypatch, tmp_path, port)
    question = Resolve(target="stay", remote=False, **sandbox.limits())
    with pytest.raises(sandbox.Abandoned):
        sandbox.ask_once("tests.hostile_child", question, TargetInfo, lambda step: step != "Staying")
    psutil.wait_procs(left_behind(), timeout=10)
    assert left_behind() == []


@needs_landlock
def test_the_data_folder_within_the_project_is_out_of_reach(
    monkeypatch: pytest.MonkeyPatch, project_root: Path, port: int
) -> None:
    """By default it is next to the code, which is in reach, and the embedded Valkey's socket is in it."""
    var = project_root / "var" / "of-tests"
    var.mkdir(parents=True, exist_ok=True)
    prepared(monkeypatch, var, port, var)
    valkey.prepare(var)
    with subprocess.Popen(valkey.command(var), stdout=subprocess.DEVNULL) as server:
        try:
            while not valkey.answers(var):
                assert server.poll() is None
            done = attempted()
        finally:
            server.terminate()
            shutil.rmtree(var)
    assert wrongly(done) == set()


@pytest.fixture
def hostile_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, port: int) -> Callable[[str], None]:
    """Has the processes that import a package run hostile code, and end with what of it succeeded in their error."""

    def plant(name: str) -> None:
        folder = tmp_path / "packages"
        (folder / name).mkdir(parents=True)
        (folder / "hostile_acts.py").write_text(Path(hostile_acts.__file__).read_text())
        code = "import hostile_acts, json\nraise RuntimeError('DONE ' + json.dumps(hostile_acts.done()))\n"
        (folder / name / "__init__.py").write_text(code)
        monkeypatch.setenv("PYTHONPATH", str(folder))
        var = tmp_path / "var"
        var.mkdir()
        prepared(monkeypatch, var, port)

    return plant


def told(text: str) -> set[str]:
    found = re.search(r"DONE (\[.*?\])", text)
    assert found, text
    return set(json.loads(found[1]))


@needs_landlock
@pytest.mark.tvm
@pytest.mark.parametrize("path", ["inspect", "extract", "show", "compile", "engine"])
def test_each_process_that_reads_what_users_bring_is_confined(
    path: str, hostile_package: Callable[[str], None], tmp_path: Path
) -> None:
    """Packages that they import once they read it stand for code that got in with it."""
    hostile_package("tvm" if path == "show" else "onnx")
    file = tmp_path / "model.onnx"
    file.write_bytes(b"model")
    network = NetworkSpec("mine", {}, ModelFile("onnx", str(file)))
    done = told(refusal(path, network, tmp_path))
    assert wrongly(done) == set()
    assert left_behind() == []


def refusal(path: str, network: NetworkSpec, folder: Path) -> str:
    """The error with which the process ends."""
    target = {"kind": "llvm", "num-cores": 1}
    if path == "engine":
        with Engine(start(folder / "work", network=network), folder / "console.log") as engine:
            ended = engine.to_the_end()
        assert isinstance(ended, Failed)
        return ended.error
    work = folder / "library"
    work.mkdir()
    limits: Any = sandbox.limits()
    build = Build(network=network, target=target, records=[], folder=str(work), remote=False, about={}, **limits)
    asked: dict[str, Callable[[], Any]] = {
        "inspect": lambda: inspection.inspect(network),
        "extract": lambda: inspection.inspect(network, target),
        "show": lambda: sandbox.ask_once(
            "tuning.engines.oneshot.showing", showing.Question(records=["[]"], **limits), showing.Shown
        ),
        "compile": lambda: compiling.asked("tuning.engines.oneshot.compiling", build, Built),
    }
    with pytest.raises(Refused) as refused:
        asked[path]()
    return str(refused.value)


@needs_landlock
def test_a_data_folder_that_they_can_read_is_told(settings: Any) -> None:
    sandbox.in_force.cache_clear()
    assert sandbox.in_force().files is not None
    # Programs are read from there.
    settings.VAR = Path(sys.prefix) / "lib"
    sandbox.in_force.cache_clear()
    assert sandbox.in_force().files is None
    sandbox.in_force.cache_clear()


@pytest.mark.parametrize(
    ("in_force", "words"),
    [
        (
            InForce(
                files="Landlock 7",
                network="network namespace",
                processes="process namespace, at most 9",
                broker="password",
                metadata="read-only mounts",
                ipc="IPC namespace",
                calls="system call filter",
            ),
            (
                "files: Landlock 7; modes and times of files: read-only mounts; network: network namespace;"
                " processes: process namespace, at most 9; shared memory: IPC namespace; system calls: system call filter;"
                " broker: password"
            ),
        ),
        (
            InForce("Landlock 3", None, None, calls="system call filter"),
            (
                "files: Landlock 3; modes and times of files: nothing; network: nothing; processes: nothing; shared memory: nothing;"
                " system calls: system call filter"
            ),
        ),
        (InForce(None, None, None), "files: nothing"),
    ],
)
def test_the_deployment_check_says_what_is_in_force(
    monkeypatch: pytest.MonkeyPatch, in_force: InForce, words: str
) -> None:
    monkeypatch.setattr(sandbox, "in_force", lambda: in_force)
    (info,) = checks.sandbox_in_force()
    assert words in info.msg
    assert (info.hint is None) == (in_force.broker is not None)
