"""Products with constant matrices whose columns no vector divides compute the same with a few columns more, in tiles of registers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tuning.engines import convnets
from tests.tuning.engines.compiling import best, build, prove, target_of
from tests.tuning.engines.convnets import Model, outputs
from tests.tuning.engines.running import Engine, options, start
from tests.tuning.engines.sketches import AVX2, AVX512, tiles_compute_the_same
from tuning.engines.wire.options.rewrites import Rewrites
from tuning.engines.wire.protocol import TasksExtracted

pytestmark = [pytest.mark.tvm, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.
HOST = {"kind": "llvm", "num-cores": 2}
"""With SSE's vectors of four."""


def layer(*shape: int, columns: int, dtype: str = "float32") -> Any:
    """A network of one product with a bias and a ReLU."""
    from tvm import relax
    from tvm.relax import op

    random, block = np.random.default_rng(1), relax.BlockBuilder()
    matrix, bias = (random.standard_normal(size).astype(dtype) for size in ((shape[-1], columns), (columns,)))
    x = relax.Var("x", relax.TensorType(shape, dtype))
    with block.function("main", [x]):
        with block.dataflow():
            y = block.emit(op.matmul(x, relax.const(matrix, dtype)))
            output = block.emit_output(op.nn.relu(block.emit(op.add(y, relax.const(bias, dtype)))))
        block.emit_func_output(output)
    return block.get()


def in_whole_vectors(mod: Any, target: dict[str, Any] = HOST) -> Any:
    from tuning.engines.networks.columns import rewriting

    return convnets.in_whole_vectors(rewriting, mod, target)


def functions(mod: Any, target: dict[str, Any] = HOST) -> list[Any]:
    """The network's tasks, each as a module of one function."""
    return convnets.functions(mod, target)


def weights_of(mod: Any) -> list[int]:
    """The shape of the matrix that the network's only task is given."""
    (function,) = (one for one in mod.functions.values())
    return [int(one) for one in function.params[1].ty.shape]


@pytest.mark.parametrize("shape", [(16, 24), (1, 5, 24), (2, 3, 4, 24), (1, 24)], ids=str)
@pytest.mark.parametrize("columns", [101, 66])
def test_they_compute_the_same(shape: tuple[int, ...], columns: int) -> None:
    mod = layer(*shape, columns=columns)
    data = np.random.default_rng(0).standard_normal(shape, dtype="float32")
    (function,) = functions(in_whole_vectors(mod))
    assert weights_of(function)[1] % 4 == 0
    assert outputs(in_whole_vectors(mod), data) == pytest.approx(outputs(mod, data), abs=1e-5)


@pytest.mark.parametrize(
    ("target", "rows", "columns", "whole"),
    [(AVX2, 16, 1001, 1008), (AVX512, 1, 1000, 1008), (AVX2, 64, 50257, 50272), (AVX2, 2, 101, 112)],
    ids=["to the next vector", "wider vectors", "more, where tiles divide those better", "an eighth more at most"],
)
def test_columns_are_added_until_good_tiles_divide_them(
    target: dict[str, Any], rows: int, columns: int, whole: int
) -> None:
    (function,) = functions(in_whole_vectors(layer(rows, 8, columns=columns), target), target)
    assert weights_of(function) == [8, whole]


@pytest.mark.parametrize(
    "mod",
    [
        lambda: layer(16, 8, columns=1000),
        lambda: layer(16, 8, columns=10),
        lambda: layer(16, 8, columns=1001, dtype="float16"),
        lambda: layer(8, columns=1001),
    ],
    ids=["whole vectors", "few columns", "another type", "a vector"],
)
def test_others_are_left_to_tvm(mod: Any) -> None:
    network = mod()
    assert in_whole_vectors(network, AVX2) is network


def test_matrices_that_arent_constant_are_left_to_tvm() -> None:
    from tvm import relax

    block = relax.BlockBuilder()
    x, y = relax.Var("x", relax.TensorType((16, 8), "float32")), relax.Var("y", relax.TensorType((8, 101), "float32"))
    with block.function("main", [x, y]):
        with block.dataflow():
            output = block.emit_output(relax.op.matmul(x, y))
        block.emit_func_output(output)
    mod = block.get()
    assert in_whole_vectors(mod) is mod


def test_schedules_with_register_tiles_are_offered() -> None:
    (mod,) = functions(in_whole_vectors(layer(16, 24, columns=101)))
    tiles_compute_the_same(mod, HOST)


@pytest.mark.rare
@pytest.mark.parametrize("columns", ["whole_vectors", "as_given"])
def test_a_library_computes_them_as_its_run_did(tmp_path: Path, columns: Any) -> None:
    model = Model(2, 2)
    model.node("Flatten")
    model.node("MatMul", model.const(np.random.default_rng(1).standard_normal((32, 101), dtype="float32")))
    network = model.saved(tmp_path / "model.onnx")
    asked = start(tmp_path / "work", network=network, trials_budget=4, options=options(columns=columns))
    with Engine(asked, tmp_path / "console.log") as engine:
        engine.to_the_end()
        (extracted,) = [event for event in engine.seen if isinstance(event, TasksExtracted)]
    is_whole = columns == "whole_vectors"
    assert ["in_vectors" in task.name for task in extracted.tasks][-1] == is_whole
    target, folder = target_of(engine), tmp_path / "library"
    built = build(network, target, best(engine), folder, rewrites=Rewrites(whole_columns=is_whole))
    assert built.untuned == []
    assert prove(network, target, folder).verified
