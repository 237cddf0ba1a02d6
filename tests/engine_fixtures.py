"""Fixtures of engines: a fake one in place of the real one, and the real one's warm parent."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fake_engine import engine as fake_engine
from tuning.engines.wire.protocol import Event
from tuning.work import engine_process
from tuning.work.warm_parent import WarmParent

Play = Callable[..., None]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Play:
    """Have the fake engine replay these events and actions."""
    path = tmp_path / "script.jsonl"
    monkeypatch.setitem(engine_process.ENGINES, "meta_schedule", "tests.fake_engine")
    monkeypatch.setenv("TVM_FAKE_ENGINE_SCRIPT", str(path))

    def write(*steps: Event | dict[str, Any]) -> None:
        path.write_text(fake_engine.script(*steps))

    return write


@pytest.fixture
def instead_of_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Have processes that are started with this interpreter run the given code, whatever they were to run."""
    path = tmp_path / "python"
    python = sys.executable
    monkeypatch.setattr(sys, "executable", str(path))

    def write(code: str) -> None:
        path.write_text(f"#!/bin/sh\nexec {python} -c {shlex.quote(code)}\n")
        path.chmod(0o755)

    return write


@pytest.fixture
def warm_tvm(monkeypatch: pytest.MonkeyPatch) -> Iterator[WarmParent]:
    """Keep a warm parent of the real engine in this process, as a worker does."""
    monkeypatch.setattr("tuning.work.warm_parent.WAIT_S", 100.0)  # A busy machine loads TVM slowly.
    engine_process.keep_warm("llvm")
    module = engine_process.ENGINES["meta_schedule"]
    yield engine_process.WARM[module]
    engine_process.WARM.pop(module).stop()


@pytest.fixture
def announced(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The announced deltas."""
    deltas: list[dict[str, Any]] = []
    for module in ("tuning.notify.announce", "tuning.work.supervisor"):
        monkeypatch.setattr(f"{module}.announce", lambda _run, delta: deltas.append(delta))
    return deltas
