"""How far a library is from the float model that its network was made from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tuning.engines.quantized import Qdq, in_floats
from tuning.engines.oneshot.comparing import accuracy, reference
from tuning.engines.wire.compiling import Accuracy, Prove
from tuning.engines.wire.protocol import ModelFile, NetworkSpec

SHAPE = (4, 16)
GIVEN = {"x": np.zeros(SHAPE, "float32")}


class InOnnxRuntime:
    """A library that computes as ONNX Runtime does; `change` alters its outputs."""

    def __init__(self, network: NetworkSpec, change: Any = lambda output: output) -> None:
        self._runs = reference.onnxruntime(network, 1)
        self._change = change
        self.given: list[Any] = []

    def on(self, given: dict[str, Any]) -> InOnnxRuntime:
        self.given.append(given["x"])
        self._outputs = [self._change(one) for one in self._runs(given)()]
        return self

    def outputs(self) -> list[Any]:
        return self._outputs


@pytest.fixture
def quantized(tmp_path: Path) -> NetworkSpec:
    pytest.importorskip("onnxruntime")
    model = Qdq(SHAPE)
    model.gemm(10)
    return model.saved(tmp_path / "quantized.onnx", SHAPE)


@pytest.fixture
def floats(quantized: NetworkSpec, tmp_path: Path) -> NetworkSpec:
    return in_floats(quantized, tmp_path / "floats.onnx")


def question(floats: NetworkSpec) -> Prove:
    target = {"kind": "llvm", "num-cores": 1}
    return Prove(network=floats, target=target, folder="", seed=7, benchmark_s=1.0, memory_mb=1, cpu_s=1)


def test_a_quantized_model_is_a_little_off_the_float_model(quantized: NetworkSpec, floats: NetworkSpec) -> None:
    library = InOnnxRuntime(quantized)
    found = accuracy.of(library, floats, question(floats), GIVEN)
    assert found.rms_error is not None
    assert found.max_error is not None
    assert 1e-3 < found.rms_error < 0.2
    assert 1e-3 < found.max_error < 0.5
    assert (found.samples, found.rows, found.without) == (8, 32, None)
    assert 24 <= found.same_largest <= 32
    assert len({one.tobytes() for one in library.given}) == 8, "each inference has other inputs"
    assert accuracy.of(InOnnxRuntime(floats), floats, question(floats), GIVEN) == Accuracy(8, 0.0, 0.0, 32, 32)


def test_what_it_says_is_what_is_off() -> None:
    wanted = [[np.array([[3.0, 4.0]]), np.array([1.0, 1.0])] for _ in range(2)]
    found = [[np.array([[3.0, 4.0]]), np.array([1.0, 1.0])], [np.array([[8.0, 4.0]]), np.array([1.0, 1.5])]]
    rms = np.sqrt(25 / 50)
    assert accuracy.compared(found, wanted) == Accuracy(2, pytest.approx(rms), 1.25, 2, 1)  # type: ignore[arg-type]
    assert accuracy.compared([[one[1]] for one in found], [[one[1]] for one in wanted]) == Accuracy(2, 0.25, 0.5, 0, 0)


def test_an_output_that_isnt_finite_has_no_error() -> None:
    found, wanted = [[np.array([[np.nan, 1.0]])]], [[np.array([[2.0, 1.0]])]]
    assert accuracy.compared(found, wanted) == Accuracy(1, None, None, 1, 1)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda output: output[:, :5], "Its outputs have the shapes [[4, 10]], those of the library [[4, 5]]."),
        (
            lambda output: output.astype("uint8"),
            "Outputs of the library are uint8, which can't be compared with floats.",
        ),
    ],
)
def test_it_says_why_nothing_can_be_compared(
    quantized: NetworkSpec, floats: NetworkSpec, change: Any, why: str
) -> None:
    found = accuracy.of(InOnnxRuntime(quantized, change), floats, question(floats), GIVEN)
    assert found == Accuracy(0, None, None, 0, 0, why)


def test_a_float_model_that_onnxruntime_cant_read_says_so(quantized: NetworkSpec, tmp_path: Path) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"broken")
    broken = NetworkSpec("broken", {}, ModelFile("onnx", str(tmp_path / "broken.onnx")))
    found = accuracy.of(InOnnxRuntime(quantized), broken, question(broken), GIVEN)
    assert found.without is not None
    assert found.without.startswith("ONNX Runtime can't run it: ")
