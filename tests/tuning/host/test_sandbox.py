"""What sandboxed processes can't reach, whatever an upload makes them do."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from dashboard import checks
from tests.hostile_child import ALLOWED, ATTEMPTS, LEFT_BEHIND_S, OF_OTHERS
from tuning.engines.confinement import landlock
from tuning.engines.wire.question import InForce
from tuning.engines.wire.targets import Resolve, TargetInfo
from tuning.host import sandbox


@pytest.fixture
def port() -> Iterator[int]:
    """Where somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


needs_landlock = pytest.mark.skipif(landlock.version() < landlock.SCOPES_SINCE, reason="this kernel has no Landlock 6")


def attempted(monkeypatch: pytest.MonkeyPatch, var: Path, port: int) -> dict[str, bool]:
    (var / "secret_key").write_text("secret")
    monkeypatch.setenv("TVM_HOSTILE_VAR", str(var))
    monkeypatch.setenv("TVM_HOSTILE_PORT", str(port))
    question = Resolve(target="this", remote=False, **sandbox.limits())
    found: dict[str, bool] = sandbox.ask_once("tests.hostile_child", question, TargetInfo).target
    return found


@needs_landlock
def test_hostile_code_reaches_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, port: int) -> None:
    done = attempted(monkeypatch, tmp_path, port)
    # What takes a network namespace isn't offered by every machine; `check --deploy` says so.
    beyond = set() if sandbox.in_force().network == "network namespace" else {"send by UDP", *OF_OTHERS}
    assert {name for name in ATTEMPTS if done[name]} <= beyond
    assert [name for name in ALLOWED if not done[name]] == []
    assert not any(LEFT_BEHIND_S in (process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"]))


@needs_landlock
def test_the_data_folder_within_the_project_is_out_of_reach(
    monkeypatch: pytest.MonkeyPatch, project_root: Path, tmp_path_factory: Any, port: int
) -> None:
    """By default it is next to the code, which is in reach."""
    var = project_root / "var" / "of-tests"
    var.mkdir(parents=True, exist_ok=True)
    try:
        assert not attempted(monkeypatch, var, port)["read the secret key"]
    finally:
        (var / "secret_key").unlink()
        var.rmdir()


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
        (InForce("Landlock 7", "network namespace"), "files: Landlock 7; network: network namespace"),
        (InForce("Landlock 3", None), "files: Landlock 3; network: nothing"),
        (InForce(None, None), "files: nothing; network: nothing"),
    ],
)
def test_the_deployment_check_says_what_is_in_force(
    monkeypatch: pytest.MonkeyPatch, in_force: InForce, words: str
) -> None:
    monkeypatch.setattr(sandbox, "in_force", lambda: in_force)
    (info,) = checks.sandbox_in_force()
    assert words in info.msg
    assert (info.hint is None) == (None not in (in_force.files, in_force.network))
