"""What a network computes from constants alone: the same as by TVM's pass, which has nothing left to compile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tuning.engines.convnets import Model, classifier

pytestmark = [pytest.mark.tvm, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.


def with_batch_norms() -> Model:
    """After a convolution without a bias, after one with it, and after what is no convolution."""
    model = Model(6, 6)
    for has_bias in (False, True):
        model.conv(pads=[1, 1, 1, 1], has_bias=has_bias)
        model.batch_norm()
    model.node("Relu")
    model.batch_norm()
    return model


def computed_from(*operators: Callable[[Any], Any], given: Any) -> Any:
    """A network that adds what the operators make of a constant, one after the other, to its input."""
    from tvm import relax

    block, value = relax.BlockBuilder(), relax.const(given)
    x = relax.Var("x", relax.TensorType((2, 3), str(given.dtype)))
    with block.function("main", [x]):
        with block.dataflow():
            for operator in operators:
                value = block.emit(operator(value))
            output = block.emit_output(relax.op.add(x, value))
        block.emit_func_output(output)
    return block.get()


def by_tvm(mod: Any) -> Any:
    from tvm import relax

    for step in (
        relax.transform.FoldConstant(),
        relax.transform.CanonicalizeBindings(),
        relax.transform.DeadCodeElimination(["main"]),
    ):
        mod = step(mod)
    return mod


def are_equal(one: Any, other: Any) -> bool:
    """Including the bits of their constants."""
    from tvm_ffi import structural_equal

    return bool(structural_equal(one, other, map_free_vars=True))


@pytest.fixture
def left_to_tvm(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The operators on constants that TVM's pass finds."""
    from tvm import relax
    from tvm.ir import GenericConst
    from tvm.ir.transform import Sequential, module_pass

    found: list[str] = []
    fold = relax.transform.FoldConstant

    def look(mod: Any, _context: Any) -> Any:
        def visit(expr: Any) -> None:
            if isinstance(expr, relax.Call) and isinstance(expr.args[0], GenericConst):
                found.append(str(expr.op.name))

        relax.analysis.post_order_visit(mod["main"], visit)
        return mod

    monkeypatch.setattr(relax.transform, "FoldConstant", lambda: Sequential([module_pass(look, opt_level=0), fold()]))
    return found


@pytest.mark.parametrize("model", [with_batch_norms, classifier])
def test_models_are_folded_as_by_tvm(model: Callable[[], Model], tmp_path: Path, left_to_tvm: list[str]) -> None:
    from tvm import relax

    from tuning.engines.networks.uploaded import onnx_files
    from tuning.engines.networks.uploaded.constants import folded

    mod, *_ = onnx_files.read(model().made().SerializeToString(), {})
    for step in (relax.transform.FoldBatchnormToConv2D(), relax.transform.DecomposeOpsForInference()):
        mod = step(mod)
    ours = folded(mod)
    assert left_to_tvm == []
    assert are_equal(ours, by_tvm(mod))
    assert left_to_tvm, "or this test couldn't see what TVM finds"


def test_other_weights_are_not_equal() -> None:
    from tvm import relax

    one, other = (computed_from(relax.op.sqrt, given=np.full((2, 3), each, "float32")) for each in (4, 9))
    assert not are_equal(by_tvm(one), by_tvm(other))


@pytest.mark.parametrize("dtype", ["float16", "float32", "int32", "int8"])
def test_numbers_are_moved_and_computed_as_by_tvm(dtype: str) -> None:
    """Of integers and halves, TVM computes what rounds differently."""
    from tvm import relax

    from tuning.engines.networks.uploaded.constants import folded

    def divided(value: Any) -> Any:
        return relax.op.divide(value, relax.const(np.asarray(7, dtype)))

    mod = computed_from(
        relax.op.permute_dims,
        lambda value: relax.op.expand_dims(value, [0]),
        divided,
        lambda value: relax.op.multiply(value, value),
        lambda value: relax.op.reshape(value, (3, 2)),
        lambda value: relax.op.permute_dims(value, [1, 0]),
        given=np.arange(40, 46).reshape(2, 3).astype(dtype) * np.asarray(2, dtype),
    )
    assert are_equal(folded(mod), by_tvm(mod))


def test_what_numpy_does_not_compute_is_left_to_tvm(left_to_tvm: list[str]) -> None:
    from tvm import relax

    from tuning.engines.networks.uploaded.constants import folded

    mod = computed_from(relax.op.sqrt, relax.op.exp, relax.op.sqrt, given=np.ones((2, 3), "float32"))
    ours = folded(mod)
    assert "relax.exp" in left_to_tvm
    assert len(ours["main"].body.blocks[0].bindings) == 1
    assert are_equal(ours, by_tvm(mod))


@pytest.mark.filterwarnings("error")
def test_a_file_may_have_any_numbers() -> None:
    """A variance of zero without an epsilon, for example."""
    from tvm import relax

    from tuning.engines.networks.uploaded.constants import folded

    mod = computed_from(
        relax.op.sqrt,
        lambda value: relax.op.divide(relax.const(np.ones((2, 3), "float32")), value),
        given=np.asarray([[0, -1, 1], [1e-40, np.inf, 3e38]], "float32"),
    )
    (binding,) = folded(mod)["main"].body.blocks[0].bindings
    found = binding.value.args[1].value.numpy()
    assert found.tolist()[0][0] == np.inf
    assert np.isnan(found[0, 1])
    assert found[1, 1] == 0


def test_a_network_without_constants_stays_as_it_is() -> None:
    from tvm import relax

    from tuning.engines.networks.uploaded.constants import folded

    block, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((2, 3), "float32"))
    with block.function("main", [x]):
        with block.dataflow():
            output = block.emit_output(relax.op.sqrt(x))
        block.emit_func_output(output)
    assert are_equal(folded(block.get()), block.get())
