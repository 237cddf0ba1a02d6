"""A process with TVM is asked for the operators of uploads, once for each version."""

from __future__ import annotations

from typing import Any

import pytest

from tuning.engines.wire.inspecting import OnnxOperator, Operators
from tuning.host import operators, sandbox


@pytest.fixture(autouse=True)
def nothing_cached() -> None:
    operators._answers.clear()


@pytest.mark.tvm
def test_it_knows_what_an_upload_may_have() -> None:
    from tuning.engines.networks.uploaded import modules, onnx_files, recurrent

    found = operators.operators()
    onnx = {one.name: one.lowered for one in found.onnx}
    assert onnx.keys() == onnx_files.known_operators() > {"Conv", "If", "Constant", "LSTM"}
    assert {name for name, lowered in onnx.items() if lowered} == recurrent.OPERATORS
    assert "512 in a model" in str(onnx["LSTM"])
    assert {"nn.conv2d", "matmul", "topk"} < set(found.relax)
    assert all(modules._is_tunable(f"relax.{name}") for name in found.relax)
    assert set(found.relax).isdisjoint(["print", "call_tir", "call_dps_packed"])
    assert operators.known() is found


def test_it_is_asked_again_only_when_the_version_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answer(module: str, *_: Any) -> Operators:
        asked.append(module)
        return Operators([OnnxOperator(f"Of{len(asked)}")], [])

    monkeypatch.setattr(sandbox, "ask_once", answer)
    assert operators.known() is None
    assert operators.operators() is operators.operators() is operators.known()
    monkeypatch.setattr(operators, "version", lambda: "0.99")
    assert operators.known() is None
    assert operators.operators().onnx[0].name == "Of2"
    assert asked == [operators.LISTER] * 2


def test_a_failure_isnt_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: Any) -> Operators:
        raise sandbox.Died("It crashed.")

    monkeypatch.setattr(sandbox, "ask_once", crash)
    with pytest.raises(sandbox.Died):
        operators.operators()
    monkeypatch.setattr(sandbox, "ask_once", lambda *_: Operators([], ["add"]))
    assert operators.operators().relax == ["add"]
