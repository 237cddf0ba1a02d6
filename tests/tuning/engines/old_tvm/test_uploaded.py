from __future__ import annotations

import subprocess
from pathlib import Path

import onnx
import pytest

from tests import models
from tuning.engines.wire.protocol import Finished, ModelFile, NetworkSpec, TasksExtracted

from .legacy_running import EVERYDAY, Legacy

pytestmark = pytest.mark.tvm


@pytest.fixture
def convnet(tmp_path: Path) -> NetworkSpec:
    """An ONNX file that leaves the batch open."""
    path = tmp_path / "convnet.onnx"
    onnx.save(models.convnet(batch="N"), path)
    return NetworkSpec("convnet", file=ModelFile("onnx", str(path), {"N": 2}))


@EVERYDAY
def test_an_onnx_file_is_tuned_with_the_extents_that_were_given(legacy: Legacy, convnet: NetworkSpec) -> None:
    if subprocess.run([legacy.python, "-c", "import onnx"], check=False).returncode:
        pytest.skip("this interpreter has no onnx")
    with legacy.run(legacy.start({"tasks": [0]}, trials_budget=2, network=convnet, relay=None)) as engine:
        convolution, *_ = engine.until(TasksExtracted).tasks
        assert engine.to_the_end() == Finished("budget")
    assert "conv2d" in convolution.name
    assert convolution.args[0].shape[0] == 2
    assert any(trial.latency_s for trial in engine.trials)
