from __future__ import annotations

import platform
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests import models
from tests.tuning.engines.running import COLD, ROOT, Engine, options, start
from tuning.engines.wire import protocol
from tuning.engines.wire.protocol import Failed, ModelFile, NetworkSpec

pytestmark = pytest.mark.tvm
X86 = {"kind": "llvm", "mcpu": "x86-64", "num-cores": 1}
on_x86 = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="not an x86 CPU")


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"network": NetworkSpec("lenet")}, "network", "There is no network lenet"),
        ({"network": NetworkSpec("matmul", {"n": 0})}, "network_options", "`$.n`"),
        ({"network": NetworkSpec("matmul", {"m": 3})}, "network_options", "unknown field `m`"),
        ({"network": NetworkSpec("resnet3d-18", {"layout": "NCHW"})}, "network_options", "Invalid enum value 'NCHW'"),
        pytest.param(
            {"network": NetworkSpec("matmul", {"dtype": "float16"}), "target": X86},
            "network_options.dtype",
            "f16c",
            marks=on_x86,
        ),
        pytest.param(
            {"network": NetworkSpec("mlp"), "target": X86, "options": options(precision="bfloat16")},
            "precision",
            "avx512bf16",
            marks=on_x86,
        ),
        pytest.param({"options": options(quantized="integers"), "target": X86}, "quantized", "VNNI", marks=on_x86),
        ({"options": options(number=0)}, "number", "`int` >= 1"),
        ({"options": options(strategy="guess")}, "strategy", "Invalid enum value"),
        ({"trials_budget": 0}, "trials", "at least 1"),
        ({"target": "nosuch"}, "target", "nosuch"),
        ({"target": {"kind": "llvm", "mcpu": "z80"}}, "target", "z80"),
    ],
)
def test_it_names_the_field_at_fault(changes: dict[str, Any], field: str, words: str, tmp_path: Path) -> None:
    with Engine(start(tmp_path / "work", **changes), tmp_path / "console") as engine:
        failed = engine.to_the_end()
        assert engine.process.returncode == 1
    assert isinstance(failed, Failed)
    assert failed.field == field
    assert words in failed.error
    assert "Traceback" not in (tmp_path / "console").read_text()


@on_x86
def test_it_refuses_an_uploaded_float16_model_too(tmp_path: Path) -> None:
    halves = [
        helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16),
        helper.make_node("MatMul", ["h", "w"], ["y"]),
    ]
    model = models.onnx_model(halves, {"x": [8, 8]}, {}, w=np.ones((8, 8), "float16"))
    model.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT16, [8, 8]))
    path = tmp_path / "halves.onnx"
    path.write_bytes(model.SerializeToString())
    network = NetworkSpec("halves", file=ModelFile("onnx", str(path), {}))
    with Engine(start(tmp_path / "work", network=network, target=X86), tmp_path / "console") as engine:
        failed = engine.to_the_end()
    assert isinstance(failed, Failed)
    assert failed.field == "target"
    assert "f16c" in failed.error
    assert "halves" in failed.error


@pytest.mark.parametrize("line", [b"{\n", b'{"type":"stop"}\n', b'{"type":"later"}\n'])
def test_it_refuses_to_start_with_another_control(line: bytes, tmp_path: Path) -> None:
    with Engine(line, tmp_path / "console") as engine:
        assert isinstance(engine.to_the_end(), Failed)


def test_it_ignores_unknown_controls(tmp_path: Path) -> None:
    with Engine(start(tmp_path / "work", trials_budget=2), tmp_path / "console") as engine:
        engine.write(b'{"type":"dance"}\nnonsense\n')
        assert engine.to_the_end() == protocol.Finished("budget")
    assert "Ignored an invalid control" in (tmp_path / "console").read_text()


def test_it_prints_its_usage() -> None:
    ended = subprocess.run(COLD, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "--events-fd" in ended.stderr


def test_it_says_what_is_wrong_with_the_installed_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another apache-tvm-ffi ends in SIGSEGV, so the engine checks it before it loads TVM."""
    shadow = tmp_path / "site" / "apache_tvm_ffi-0.1.15.dist-info"
    shadow.mkdir(parents=True)
    (shadow / "METADATA").write_text("Metadata-Version: 2.1\nName: apache-tvm-ffi\nVersion: 0.1.15\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    with Engine(start(tmp_path / "work"), tmp_path / "console", COLD) as engine:
        failed = engine.to_the_end()
    assert isinstance(failed, Failed)
    assert "apache-tvm-ffi 0.1.15 is installed" in failed.error
    assert "pip install -r requirements.lock" in failed.error
