"""What sandboxed processes can't reach, whatever an upload makes them do."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from dashboard import checks
from tests.hostile_child import ALLOWED, ATTEMPTS, LEFT_BEHIND_S
from tuning.engines.wire.question import InForce
from tuning.engines.wire.targets import Resolve, TargetInfo
from tuning.host import sandbox


@pytest.fixture
def port() -> Iterator[int]:
    """Where somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def attempted(monkeypatch: pytest.MonkeyPatch, var: Path, port: int) -> dict[str, bool]:
    (var / "secret_key").write_text("secret")
    monkeypatch.setenv("TVM_HOSTILE_VAR", str(var))
    monkeypatch.setenv("TVM_HOSTILE_PORT", str(port))
    question = Resolve(target="this", remote=False, **sandbox.limits())
    found: dict[str, bool] = sandbox.ask_once("tests.hostile_child", question, TargetInfo).target
    return found


def test_hostile_code_reaches_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, port: int) -> None:
    done = attempted(monkeypatch, tmp_path, port)
    assert [name for name in ATTEMPTS if done[name]] == []
    assert [name for name in ALLOWED if not done[name]] == []
    assert not any(LEFT_BEHIND_S in (process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"]))


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


def test_this_machine_confines_them() -> None:
    in_force = sandbox.in_force()
    assert in_force.files is not None
    assert in_force.network == "network namespace"
    assert checks.sandbox_in_force() == []


@pytest.mark.parametrize(
    ("in_force", "words"),
    [
        (InForce(None, None), "files and network"),
        (InForce("Landlock 3", None), "machine's network"),
        (InForce(None, "network namespace"), "machine's files"),
    ],
)
def test_the_deployment_check_says_what_the_machine_lacks(
    monkeypatch: pytest.MonkeyPatch, in_force: InForce, words: str
) -> None:
    monkeypatch.setattr(sandbox, "in_force", lambda: in_force)
    (warning,) = checks.sandbox_in_force()
    assert words in warning.msg
