"""Convolutions whose filters vectors don't divide compute the same with a few filters more, in tiles of registers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tuning.engines import convnets
from tests.tuning.engines.compiling import best, build, prove, target_of
from tests.tuning.engines.convnets import Model, outputs
from tests.tuning.engines.running import Engine, options, start
from tests.tuning.engines.sketches import AVX2, AVX512, candidate, marked, tiles_compute_the_same
from tuning.engines.wire.options.rewrites import Rewrites
from tuning.engines.wire.protocol import TasksExtracted

pytestmark = [pytest.mark.tvm, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.
HOST = {"kind": "llvm", "num-cores": 2}
"""With SSE's vectors of four."""
SIZES = {"D": 5, "H": 6, "W": 8}


def layer(
    filters: int,
    axes: str = "HW",
    kernel: int = 1,
    *,
    channels: int = 4,
    layout: str = "last",
    dtype: str = "float32",
    **attrs: Any,
) -> Any:
    """A network of one convolution with a bias and a ReLU, for images, sounds or videos."""
    from tvm import relax
    from tvm.relax import op

    random, block = np.random.default_rng(1), relax.BlockBuilder()
    images, groups = [SIZES[axis] for axis in axes], attrs.get("groups", 1)
    weights = random.standard_normal([kernel] * len(axes) + [channels // groups, filters]).astype(dtype)
    bias = random.standard_normal(filters).astype(dtype)
    data_layout, shape = f"N{axes}C", (1, *images, channels)
    if layout == "first":
        data_layout, shape, bias = f"NC{axes}", (1, channels, *images), bias.reshape(-1, *[1] * len(axes))
    x = relax.Var("x", relax.TensorType(shape, dtype))
    convolve = getattr(op.nn, f"conv{len(axes)}d")
    with block.function("main", [x]):
        with block.dataflow():
            kernel_layout = f"{axes}IO"
            y = block.emit(
                convolve(x, relax.const(weights, dtype), data_layout=data_layout, kernel_layout=kernel_layout, **attrs)
            )
            output = block.emit_output(op.nn.relu(block.emit(op.add(y, relax.const(bias, dtype)))))
        block.emit_func_output(output)
    return block.get()


def in_whole_vectors(mod: Any, target: dict[str, Any] = HOST) -> Any:
    from tuning.engines.networks.filters import rewriting

    return convnets.in_whole_vectors(rewriting, mod, target)


def function(mod: Any, target: dict[str, Any] = HOST) -> Any:
    """The network's only task, as a module of one function."""
    (made,) = convnets.functions(mod, target)
    return made


def filters_of(mod: Any) -> int:
    """How many the weights have that the network's only task is given."""
    (made,) = (one for one in mod.functions.values())
    return int(made.params[1].ty.shape[-1])


@pytest.mark.parametrize(
    ("axes", "kernel", "attrs"),
    [
        ("HW", 1, {}),
        ("HW", 3, {"padding": 1, "strides": 2}),
        ("HW", 3, {"padding": [0, 1, 2, 3], "strides": [2, 1]}),
        ("HW", 2, {"dilation": [3, 2]}),
        ("W", 5, {"padding": 2}),
        ("DHW", 3, {"padding": 1, "strides": 2}),
    ],
    ids=str,
)
def test_they_compute_the_same(axes: str, kernel: int, attrs: dict[str, Any]) -> None:
    mod = layer(21, axes, kernel, **attrs)
    assert filters_of(function(in_whole_vectors(mod))) == 24
    data = np.random.default_rng(0).standard_normal([1, *(SIZES[axis] for axis in axes), 4], dtype="float32")
    assert outputs(in_whole_vectors(mod), data) == pytest.approx(outputs(mod, data), abs=1e-5)


@pytest.mark.parametrize(
    ("target", "width", "filters", "whole"),
    [
        (AVX2, 28, 21, 24),
        (AVX2, 28, 100, 112),
        (AVX512, 13, 255, 256),
        (AVX512, 7, 1000, 1008),
        (AVX512, 28, 12, 16),
        (AVX512, 64, 5, 8),
    ],
    ids=["no vector", "half vectors", "one more", "faster tiles", "an only vector", "an only half"],
)
def test_filters_are_added_until_good_tiles_divide_them(
    target: dict[str, Any], width: int, filters: int, whole: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SIZES, "W", width)
    assert filters_of(function(in_whole_vectors(layer(filters), target), target)) == whole


@pytest.mark.parametrize(
    ("target", "mod"),
    [
        (AVX2, lambda: layer(24)),
        (AVX512, lambda: layer(40)),
        (AVX512, lambda: layer(3)),
        (AVX2, lambda: layer(21, layout="first")),
        (AVX2, lambda: layer(21, dtype="float16")),
        (AVX2, lambda: layer(18, channels=6, groups=6)),
    ],
    ids=["whole vectors", "half vectors that are as fast", "few filters", "channels first", "another type", "groups"],
)
def test_others_are_left_to_tvm(target: dict[str, Any], mod: Any) -> None:
    network = mod()
    assert in_whole_vectors(network, target) is network


def test_kernels_that_arent_constant_are_left_to_tvm() -> None:
    from tvm import relax

    block = relax.BlockBuilder()
    x, weights = (relax.Var(name, relax.TensorType((1, 1, 9, 9), "float32")) for name in ("x", "weights"))
    with block.function("main", [x, weights]):
        with block.dataflow():
            output = block.emit_output(
                relax.op.nn.conv2d(x, weights, data_layout="NHWC", kernel_layout="HWIO", out_layout="NHWC")
            )
        block.emit_func_output(output)
    mod = block.get()
    assert in_whole_vectors(mod) is mod


@pytest.mark.parametrize("filters", [21, 22, 45])
def test_schedules_with_register_tiles_are_offered(filters: int) -> None:
    """TVM's verification can't prove of some tiles that they cover what is kept of them."""
    mod = function(in_whole_vectors(layer(filters, kernel=3, padding=1)))
    tiles_compute_the_same(mod, HOST, verified=False)


def test_what_is_kept_of_a_tile_is_stored_in_vectors() -> None:
    """In halves of them: TVM stores one number at a time where a part of a vector is kept."""
    import tvm
    from tvm.target import Target

    tiled, context = marked("registers", function(in_whole_vectors(layer(100), AVX2), AVX2), AVX2)
    for nth, sketch in enumerate(tiled):
        library = tvm.compile(candidate(sketch, context, nth + 1, verified=False), Target(AVX2))
        code = library.mod.inspect_source("ll")
        assert "store <4 x float>" in code
        assert "store float" not in code


@pytest.mark.rare
@pytest.mark.parametrize("filters", ["whole_vectors", "as_given"])
def test_a_library_computes_them_as_its_run_did(tmp_path: Path, filters: Any) -> None:
    model = Model(12, 12)
    for _ in range(4):
        model.block()
    model.node("Conv", model.const(np.random.default_rng(1).standard_normal((21, 8, 1, 1), dtype="float32")))
    model.node("GlobalAveragePool")
    network = model.saved(tmp_path / "model.onnx")
    asked = start(tmp_path / "work", network=network, trials_budget=8, options=options(filters=filters))
    with Engine(asked, tmp_path / "console.log") as engine:
        engine.to_the_end()
        (extracted,) = [event for event in engine.seen if isinstance(event, TasksExtracted)]
    is_whole = filters == "whole_vectors"
    assert any("in_vectors" in task.name for task in extracted.tasks) == is_whole
    target, folder = target_of(engine), tmp_path / "library"
    built = build(network, target, best(engine), folder, rewrites=Rewrites(channels_last=True, whole_filters=is_whole))
    assert built.untuned == []
    assert prove(network, target, folder).verified
