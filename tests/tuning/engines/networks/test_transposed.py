"""Transposed convolutions by phase compute the same as TVM's, with fewer multiplications."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tuning.engines import convnets
from tests.tuning.engines.compiling import best, build, prove, target_of
from tests.tuning.engines.convnets import Model, outputs
from tests.tuning.engines.running import Engine, options, start
from tests.tuning.engines.sketches import tiles_compute_the_same
from tuning.engines.wire.options.rewrites import Rewrites
from tuning.engines.wire.protocol import TasksExtracted

pytestmark = [pytest.mark.tvm, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.
HOST = {"kind": "llvm", "num-cores": 2}
SIZES = {"D": 3, "H": 5, "W": 6}


def layer(
    axes: str = "HW", kernel: int = 2, layout: str = "", dtype: str = "float32", channels: int = 4, **attrs: Any
) -> Any:
    """A network of one transposed convolution with a bias and a ReLU, of a batch of 2, with 16 filters; channels first by default."""
    from tvm import relax
    from tvm.relax import op

    layout, random, block = layout or f"NC{axes}", np.random.default_rng(1), relax.BlockBuilder()
    order = f"IO{axes}" if layout.startswith("NC") else f"{axes}OI"
    given = {"data_layout": layout, "kernel_layout": order, "strides": 2, **attrs}
    extents = {"N": 2, "C": channels, **SIZES}
    shape = {"I": channels, "O": 16 // attrs.get("groups", 1), **dict.fromkeys(axes, kernel)}
    numbers = random.standard_normal([shape[axis] for axis in f"IO{axes}"]).astype(dtype)
    kernels = np.ascontiguousarray(numbers.transpose([f"IO{axes}".index(axis) for axis in order]))
    bias = random.standard_normal([16 if axis == "C" else 1 for axis in layout]).astype(dtype)
    x = relax.Var("x", relax.TensorType([extents[axis] for axis in layout], dtype))
    with block.function("main", [x]):
        with block.dataflow():
            y = block.emit(getattr(op.nn, f"conv{len(axes)}d_transpose")(x, relax.const(kernels, dtype), **given))
            output = block.emit_output(op.nn.relu(block.emit(op.add(y, relax.const(bias, dtype)))))
        block.emit_func_output(output)
    return block.get()


def by_phase(mod: Any) -> Any:
    from tuning.engines.networks.transposed import rewriting

    return rewriting.by_phase(mod)


def functions(mod: Any) -> list[Any]:
    """The network's tasks, each as a module of one function."""
    return convnets.functions(mod, HOST)


def data_of(mod: Any) -> Any:
    ty = mod["main"].params[0].ty
    return np.random.default_rng(0).standard_normal([int(one) for one in ty.shape]).astype(str(ty.dtype))


@pytest.mark.parametrize(
    ("axes", "kernel", "attrs"),
    [
        ("HW", 2, {}),
        ("HW", 4, {"padding": 1}),
        ("HW", 3, {"padding": 1, "output_padding": 1}),
        ("HW", 5, {"padding": [2, 1, 1, 2]}),
        ("HW", 1, {"output_padding": 1}),
        ("HW", 2, {"padding": 4}),
        ("HW", 7, {"strides": 3, "padding": 2}),
        ("HW", 2, {"strides": [2, 1], "padding": [0, 1, 0, 0]}),
        ("W", 16, {"strides": 8, "padding": 4}),
        ("W", 3, {"strides": 3}),
        ("DHW", 2, {}),
        ("DHW", 3, {"padding": 1, "output_padding": 1}),
    ],
    ids=str,
)
def test_they_compute_the_same(axes: str, kernel: int, attrs: dict[str, Any]) -> None:
    mod = layer(axes, kernel, **attrs)
    (function,) = functions(by_phase(mod))
    assert f"conv{len(axes)}d_transpose_by_phase" in str(by_phase(mod).get_global_vars())
    assert "sums" in str(function.script())
    expected = outputs(mod, data_of(mod))
    assert outputs(by_phase(mod), data_of(mod)) == pytest.approx(expected, abs=1e-5 * float(np.abs(expected).max()))


@pytest.mark.parametrize(("kernel", "padding"), [(2, 0), (4, 1)])
def test_channels_may_come_last(kernel: int, padding: int) -> None:
    """TVM has no function of its own for that."""
    first = layer(kernel=kernel, padding=padding)
    last = by_phase(layer(kernel=kernel, padding=padding, layout="NHWC"))
    expected = outputs(first, data_of(first)).transpose(0, 2, 3, 1)
    given = np.ascontiguousarray(data_of(first).transpose(0, 2, 3, 1))
    assert outputs(last, given) == pytest.approx(expected, abs=1e-5 * float(np.abs(expected).max()))


@pytest.mark.parametrize(("dtype", "off"), [("float16", 2e-2), ("float64", 1e-12)])
def test_the_precision_stays_what_it_is(dtype: str, off: float) -> None:
    mod = layer(dtype=dtype)
    expected = outputs(mod, data_of(mod))
    found = outputs(by_phase(mod), data_of(mod))
    assert found.dtype == expected.dtype == dtype
    assert found.astype("float64") == pytest.approx(expected.astype("float64"), abs=off)


@pytest.mark.parametrize(
    "given",
    [
        {"strides": 1},
        {"groups": 2},
        {"dilation": 2, "kernel": 3, "output_padding": 1},
        {"kernel": 3, "padding": 1},
    ],
    ids=str,
)
def test_others_are_left_to_tvm(given: dict[str, Any]) -> None:
    mod = layer(**given)
    assert by_phase(mod) is mod


def test_weights_that_arent_constant_are_left_to_tvm() -> None:
    from tvm import relax

    block = relax.BlockBuilder()
    x, weights = (relax.Var(name, relax.TensorType((4, 4, 2, 2), "float32")) for name in ("x", "weights"))
    with block.function("main", [x, weights]):
        with block.dataflow():
            output = block.emit_output(relax.op.nn.conv2d_transpose(x, weights, strides=2))
        block.emit_func_output(output)
    mod = block.get()
    assert by_phase(mod) is mod


@pytest.mark.parametrize(
    ("axes", "kernel", "attrs", "times"),
    [("HW", 2, {}, 4), ("HW", 4, {"padding": 1}, 4), ("W", 16, {"strides": 8, "padding": 4}, 8), ("DHW", 2, {}, 8)],
    ids=str,
)
def test_there_are_fewer_multiplications(axes: str, kernel: int, attrs: dict[str, Any], times: int) -> None:
    """As many times as there are phases."""
    from tvm.s_tir.analysis import estimate_tir_flops

    mod = layer(axes, kernel, channels=256, **attrs)
    (by_tvm,), (ours,) = functions(mod), functions(by_phase(mod))
    assert estimate_tir_flops(by_tvm) / estimate_tir_flops(ours) == pytest.approx(times, rel=0.05)


@pytest.mark.parametrize("kernel", [2, 4])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_schedules_with_register_tiles_are_offered(layout: str, kernel: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors lie along the width or the filters, whichever is last."""
    monkeypatch.setitem(SIZES, "W", 16)
    (mod,) = functions(by_phase(layer(kernel=kernel, padding=kernel // 2 - 1, layout=layout, channels=32)))
    tiles_compute_the_same(mod, HOST)


@pytest.mark.parametrize("transposed", ["by_phase", pytest.param("over_zeros", marks=pytest.mark.rare)])
def test_a_library_computes_them_as_its_run_did(tmp_path: Path, transposed: Any) -> None:
    model = Model(8, 8)
    model.conv("ConvTranspose", 2, strides=[2, 2])
    network = model.saved(tmp_path / "model.onnx")
    asked = start(tmp_path / "work", network=network, trials_budget=4, options=options(transposed=transposed))
    with Engine(asked, tmp_path / "console.log") as engine:
        engine.to_the_end()
        (extracted,) = [event for event in engine.seen if isinstance(event, TasksExtracted)]
    is_by_phase = transposed == "by_phase"
    assert [("by_phase" in task.name) for task in extracted.tasks] == [is_by_phase]
    target, folder = target_of(engine), tmp_path / "library"
    built = build(network, target, best(engine), folder, rewrites=Rewrites(by_phase=is_by_phase))
    assert (len(built.used), built.untuned) == (1, [])
    assert prove(network, target, folder).verified
