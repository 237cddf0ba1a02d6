"""A PyTorch that is installed beside TVM, as in an environment of the user's own, isn't imported by processes that use TVM."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def beside_pytorch(tmp_path: Path) -> dict[str, str]:
    """An environment in which a `torch` can be found, and whoever imports it ends."""
    (tmp_path / "torch.py").write_text("raise SystemExit('torch was imported')")
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(tmp_path)))}


def run(code: str, env: dict[str, str]) -> tuple[int, str]:
    ended = subprocess.run([sys.executable, "-c", code], check=False, env=env, capture_output=True, text=True)
    return ended.returncode, ended.stderr.strip()


@pytest.mark.tvm
def test_tvm_imports_it_but_not_in_our_processes(beside_pytorch: dict[str, str]) -> None:
    assert run("import tvm", beside_pytorch) == (1, "torch was imported")
    assert run("import tuning.engines.wire.versions, tvm", beside_pytorch) == (0, "")


def test_programs_are_converted_with_it(beside_pytorch: dict[str, str]) -> None:
    assert run("import tuning.engines.pytorch.probe, torch", beside_pytorch) == (1, "torch was imported")
