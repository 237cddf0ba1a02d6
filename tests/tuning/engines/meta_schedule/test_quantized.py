"""A quantized model is tuned, compiled and verified in integers, or in floats if that is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.tuning.engines.compiling import best, build, prove, target_of
from tests.tuning.engines.quantized import Qdq, in_floats
from tests.tuning.engines.running import Engine, options, start
from tuning.engines.wire.compiling import MANIFEST, Quantized
from tuning.engines.wire.options.rewrites import Rewrites
from tuning.engines.wire.protocol import NetworkSpec, TasksExtracted

pytestmark = pytest.mark.tvm


def small(path: Path) -> NetworkSpec:
    model = Qdq((1, 8, 10, 10))
    model.conv(24, pads=[1, 1, 1, 1])
    model.apply("Relu")
    model.apply("GlobalAveragePool")
    model.apply("Flatten")
    model.shape = [1, 24]
    model.gemm(10)
    return model.saved(path / "model.onnx", (1, 8, 10, 10))


def instruction() -> Any:
    """That of this machine's CPU."""
    from tvm.target import Target

    from tuning.engines.targets.dot_products import instruction_of
    from tuning.engines.targets.resolving import resolve

    return instruction_of(Target(resolve("this").target))


def tuned(path: Path, network: NetworkSpec, trials: int, **changes: Any) -> tuple[Engine, list[str]]:
    asked = start(path / "work", network=network, trials_budget=trials, options=options(**changes))
    with Engine(asked, path / "console.log") as engine:
        engine.to_the_end()
    (extracted,) = [event for event in engine.seen if isinstance(event, TasksExtracted)]
    return engine, [task.name for task in extracted.tasks]


def test_a_library_computes_in_integers_what_was_tuned_so(tmp_path: Path) -> None:
    if instruction() is None:
        pytest.skip("This machine's CPU has no instructions for products of 8-bit integers.")
    network = small(tmp_path)
    engine, names = tuned(tmp_path, network, 24)
    assert [kind for name in names for kind in ("int8_conv2d", "int8_matmul") if kind in name] == [
        "int8_conv2d",
        "int8_matmul",
    ]
    told = "2 of 2 quantized operators are computed in integers (1 conv2d, 1 matmul)."
    assert told in (tmp_path / "console.log").read_text()
    assert all(trial.latency_s for trial in engine.trials), [trial.error for trial in engine.trials]
    built = build(network, target_of(engine), best(engine), tmp_path / "library", rewrites=Rewrites(integers=True))
    assert built.untuned == []
    assert built.quantized == Quantized({"conv2d": 1, "matmul": 1}, [float(np.float32(0.05))])
    written = msgspec.json.decode((tmp_path / "library" / MANIFEST).read_bytes())
    assert written["quantized"]["integers"] == {"conv2d": 1, "matmul": 1}
    proven = prove(network, target_of(engine), tmp_path / "library")
    assert proven.verified
    assert (proven.tolerance.steps, proven.without_onnxruntime) == (2, None)
    assert proven.max_abs_error is not None
    assert proven.max_abs_error < 0.101


@pytest.mark.rare
def test_a_library_computes_in_floats_if_that_was_asked(tmp_path: Path) -> None:
    network = small(tmp_path)
    engine, names = tuned(tmp_path, network, 8, quantized="floats")
    assert not any("int8" in name for name in names)
    assert "quantized" not in (tmp_path / "console.log").read_text()
    built = build(network, target_of(engine), best(engine), tmp_path / "library")
    assert built.quantized is None
    floats = in_floats(network, tmp_path / "floats.onnx")
    proven = prove(network, target_of(engine), tmp_path / "library", float_model=floats)
    assert (proven.verified, proven.tolerance.steps) == (True, None)
    assert proven.accuracy is not None
    assert proven.accuracy.rms_error is not None
    assert 1e-3 < proven.accuracy.rms_error < 0.2, "what rounding to 8 bits does"
    assert (proven.accuracy.samples, proven.accuracy.rows) == (8, 8)
    assert proven.rounds["float_model"]


def test_a_cpu_without_the_instructions_computes_in_floats(tmp_path: Path) -> None:
    """It is told, unless the run asks for floats."""
    asked = {"kind": "llvm", "num-cores": 1}
    given = start(tmp_path / "work", network=small(tmp_path), target=asked, trials_budget=4)
    with Engine(given, tmp_path / "console.log") as engine:
        engine.to_the_end()
    reason = "no instructions for products of 8-bit integers are known of the target"
    told = f"0 of 2 quantized operators are computed in integers. In floats: 1 conv2d: {reason}; 1 matmul: {reason}."
    assert told in (tmp_path / "console.log").read_text()
