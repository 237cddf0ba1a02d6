"""What interpreters with an older TVM are asked, and how it is told that one can't answer."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.threads import until
from tuning.host import interpreters

Named = Callable[[str], Path]
PROBED = (
    '{"type":"probed","tvm":"0.9.dev0","versions":{},"engines":{"auto_scheduler":null,"autotvm":null},"tuners":["random"],'
    '"xgboost":null,"relay_testing":null,"onnx":null,"targets":{"llvm":null},"cpu":{"kind":"llvm"},"rpc":true,"vta":null}'
)
STEP = '{"type":"step","text":"Import tvm"}'


@pytest.fixture
def named(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Named:
    """Writes a shell script, and names it as the interpreter `old`."""
    monkeypatch.setattr(interpreters, "_known", {})
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()

    def write(script: str) -> Path:
        python.write_text(f"#!/bin/sh\necho asked >>{tmp_path}/log\n{script}\n")
        python.chmod(0o755)
        settings.LEGACY_PYTHON = {"old": python}
        return python

    return write


def times_asked(python: Path) -> int:
    return len((python.parent.parent / "log").read_text().splitlines())


def test_an_interpreter_is_asked_once(named: Named) -> None:
    python = named(f"echo '{STEP}'; echo '{PROBED}'")
    found = interpreters.ask("old").found
    assert found
    assert (found.tvm, found.cpu) == ("0.9.dev0", {"kind": "llvm"})
    assert interpreters.ask("old") == interpreters.Asked(found)
    assert times_asked(python) == 1


def test_it_is_asked_again_after_something_was_installed(named: Named) -> None:
    python = named(f"echo '{PROBED}'")
    packages = python.parent.parent / "lib" / "python3.8" / "site-packages"
    packages.mkdir(parents=True)
    interpreters.ask("old")
    os.utime(packages, (1, 1))
    interpreters.ask("old")
    assert times_asked(python) == 2


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("echo hello", "ended with status 0 before its first step. It may not be a Python"),
        ("echo no such option >&2; exit 2", "ended with status 2 before its first step. It may not be a Python"),
        (f"echo '{STEP}'; echo boom >&2; exit 1", "ended with status 1 at the step “Import tvm”. Its last line: boom"),
        (f"echo '{STEP}'; kill -ABRT $$", "was killed by SIGABRT at the step “Import tvm”."),
        (f"echo '{STEP}'", "ended with status 0 at the step “Import tvm”."),
    ],
)
def test_it_tells_why_there_is_no_answer(named: Named, script: str, told: str) -> None:
    python = named(script)
    error = interpreters.ask("old").error
    assert error
    assert error.startswith(str(python))
    assert told in error


def test_an_interpreter_that_hangs_is_ended_with_its_children(named: Named, monkeypatch: pytest.MonkeyPatch) -> None:
    python = named(f"echo '{STEP}'; sleep 600 & echo $! >$0.child; wait")
    monkeypatch.setattr(interpreters, "LIMIT_S", 0.5)
    error = interpreters.ask("old").error
    assert error == f"{python} hangs at the step “Import tvm”: it gave no answer within 0.5 s."
    child = int(Path(f"{python}.child").read_text())
    until(lambda: has_died(child))


def has_died(pid: int) -> bool:
    """Whether the process has ended, even if nobody has waited for it yet. A killed one ends a moment later."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_program_of_another_machine_is_named(named: Named) -> None:
    python = named("")
    python.write_bytes(b"\x7fELF nonsense")
    assert interpreters.ask("old").error == f"{python} can't be started: Exec format error."


def test_a_failure_is_remembered_for_a_while(named: Named, monkeypatch: pytest.MonkeyPatch) -> None:
    python = named("exit 1")
    interpreters.ask("old")
    interpreters.ask("old")
    assert times_asked(python) == 1
    monkeypatch.setattr(interpreters, "RETRY_S", -1.0)
    interpreters.ask("old")
    assert times_asked(python) == 2


def test_a_page_need_not_wait_for_the_answer(named: Named, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[threading.Thread] = []
    monkeypatch.setattr(threading.Thread, "start", lambda self: started.append(self))  # noqa: PLW0108 - a method
    named(f"echo '{PROBED}'")
    assert interpreters.look("old").pending
    assert interpreters.look("old").pending
    assert len(started) == 1
    started[0].run()
    assert interpreters.look("old").found


def test_it_knows_nothing_of_the_sites_secrets(named: Named, monkeypatch: pytest.MonkeyPatch) -> None:
    python = named(f"env >$0.env; echo '{PROBED}'")
    monkeypatch.setenv("SECRET_KEY", "secret")
    interpreters.ask("old")
    environment = Path(f"{python}.env").read_text()
    assert "SECRET_KEY" not in environment
    assert "TOPHUB_LOCATION=NONE" in environment
