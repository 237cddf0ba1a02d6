"""Where the programs of CUDA are looked for."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tuning.engines.targets import cuda
from tuning.engines.wire import compiling
from tuning.engines.wire.compiling import cuda_tool, cuda_tools


def program(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Empty ones: the PATH, the toolkit, and Python's packages."""
    found = {name: tmp_path / name for name in ("path", "toolkit", "packages")}
    found["packages"].mkdir()
    monkeypatch.setenv("PATH", str(found["path"]))
    monkeypatch.delenv(cuda.MODE, raising=False)
    monkeypatch.setattr(compiling, "CUDA_TOOLKIT", str(found["toolkit"]))
    monkeypatch.setattr(sys, "path", [str(found["packages"])])
    return found


def test_the_path_comes_before_the_toolkit_and_packages(places: dict[str, Path]) -> None:
    assert cuda_tool("ptxas") is None
    assert cuda_tools() == []
    older = program(places["packages"] / "nvidia" / "cu12" / "bin" / "ptxas")
    assert cuda_tool("ptxas") == older
    newer = program(places["packages"] / "nvidia" / "cu13" / "bin" / "ptxas")
    assert cuda_tool("ptxas") == newer
    toolkit = program(places["toolkit"] / "ptxas")
    assert cuda_tool("ptxas") == toolkit
    first = program(places["path"] / "ptxas")
    assert cuda_tool("ptxas") == first
    assert cuda_tools() == [first]


def test_tvm_finds_an_nvcc_that_is_not_on_the_path(places: dict[str, Path]) -> None:
    assert cuda.compiler() is None
    nvcc = program(places["packages"] / "nvidia" / "cu13" / "bin" / "nvcc")
    assert cuda.compiler() == "nvcc"
    cuda.choose_compiler()
    assert os.environ[cuda.MODE] == "nvcc"
    assert os.environ["PATH"].split(os.pathsep) == [str(places["path"]), str(Path(nvcc).parent)]
