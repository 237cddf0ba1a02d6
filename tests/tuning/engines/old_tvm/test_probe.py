from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.tuning.engines.running import ROOT
from tuning.engines.wire.legacy import Probed, ProbeEvent
from tuning.engines.wire.question import Step

PROBE = ["-m", "tuning.engines.old_tvm.probe"]


def _events(stdout: bytes) -> list[ProbeEvent]:
    return [msgspec.json.decode(line, type=ProbeEvent) for line in stdout.splitlines()]


@pytest.mark.tvm
def test_it_tells_what_an_old_tvm_can_do(legacy_python: str) -> None:
    asked = subprocess.run([legacy_python, *PROBE], cwd=ROOT, capture_output=True, check=True)
    *steps, probed = _events(asked.stdout)
    assert all(isinstance(step, Step) for step in steps)
    assert isinstance(probed, Probed)
    assert probed.tvm.startswith("0.")
    assert probed.engines == {"auto_scheduler": None, "autotvm": None}
    assert set(probed.tuners) == {"xgb", "xgb_rank", "ga", "random", "gridsearch"}
    assert probed.xgboost is probed.relay_testing is probed.targets["llvm"] is None
    assert probed.cpu
    assert probed.cpu["kind"] == "llvm"


@pytest.mark.rare
@pytest.mark.tvm
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (
            "raise TypeError('Descriptors cannot be created.\\n\\nMore information: https')",
            "TypeError: Descriptors cannot",
        ),
        ("__version__ = '1.99'", "onnx 1.99: AttributeError: module 'onnx' has no attribute"),
    ],
)
def test_an_onnx_that_doesnt_fit_is_none(code: str, reason: str, legacy_python: str, tmp_path: Path) -> None:
    (tmp_path / "onnx.py").write_text(code)
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    asked = subprocess.run([legacy_python, *PROBE], cwd=ROOT, env=env, capture_output=True, check=True)
    probed = _events(asked.stdout)[-1]
    assert isinstance(probed, Probed)
    assert reason in str(probed.onnx)


@pytest.mark.parametrize(
    ("module", "code", "last_step", "status"),
    [
        ("tvm", "import os; os.abort()", "Import tvm", -6),
        ("tvm", "raise AttributeError('np.float_')", "Import tvm", 1),
        ("xgboost", "import os; os.kill(os.getpid(), 11)", "Import xgboost", -11),
    ],
)
def test_its_last_line_names_the_step_that_killed_it(
    module: str, code: str, last_step: str, status: int, tmp_path: Path
) -> None:
    (tmp_path / f"{module}.py").write_text(code)
    asked = subprocess.run(
        [sys.executable, *PROBE], cwd=ROOT, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, check=False
    )
    assert asked.returncode == status
    assert _events(asked.stdout)[-1] == Step(last_step)
    if status == 1:
        assert b"tvm can't be imported: AttributeError: np.float_" in asked.stderr
