"""A whole run on `cuda:0`, whose GPU is a stand-in: TVM, the search, builds and workers are real, times mean nothing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.tuning.engines import gpu_stand_in
from tests.tuning.engines.running import COLD, Engine, latencies, lines, start
from tuning.engines.wire.protocol import Finished, NetworkSpec

pytestmark = [
    pytest.mark.tvm,
    pytest.mark.rare,
    pytest.mark.skipif(shutil.which("g++") is None, reason="no linker for the host's code"),
]
A100 = "nvidia/nvidia-a100"


def test_a_run_goes_on_after_errors_of_its_gpu(tmp_path: Path) -> None:
    """Its candidates for float16 use tensor cores."""
    gpu = tmp_path / "run" / "gpu"  # Engines read nothing outside of their runs' folders.
    gpu.mkdir(parents=True)
    env = {**os.environ, **gpu_stand_in.install(gpu)}
    gpu_stand_in.plan(gpu, "fine", "illegal", "crash", "fine")
    matmul = NetworkSpec("matmul", {"n": 64, "dtype": "float16"})
    asked = start(tmp_path / "run", target=A100, network=matmul, trials_budget=4)
    with Engine(asked, tmp_path / "console", COLD, env) as engine:
        assert isinstance(engine.to_the_end(), Finished), (tmp_path / "console").read_text()[-3000:]
    first, illegal, crashed, last = engine.trials
    assert (illegal.error_kind, crashed.error_kind) == ("run", "run")
    assert "an illegal memory access was encountered" in (illegal.error or "")
    assert "SIGABRT" in (crashed.error or "")
    assert [first.error, last.error] == [None, None]
    assert [latency is None for latency in latencies(tmp_path / "run")] == [False, True, True, False]
    assert all("wmma_sync_16x16x16_f16f16f16" in str(line) for line in lines(tmp_path / "run"))
