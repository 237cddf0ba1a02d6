"""An uploaded network's convolutions have their channels last where that takes few transpositions, and compute the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tuning.engines.compiling import best, build, prove, target_of
from tests.tuning.engines.convnets import (
    Model,
    autoencoder,
    classifier,
    of_sounds,
    of_videos,
    outputs,
    with_an_odd_output,
)
from tests.tuning.engines.running import Engine, options, start
from tuning.engines.wire.options.rewrites import Rewrites
from tuning.engines.wire.protocol import ModelFile, NetworkSpec, TasksExtracted

pytestmark = [pytest.mark.tvm, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.
CPU = {"kind": "llvm", "num-cores": 2}


def read(model: Model, path: Path) -> Any:
    from tuning.engines import networks

    return networks.build(model.saved(path / "model.onnx"))


def as_tuned(network: Any, target: dict[str, Any] = CPU, *, by_phase: bool = True, as_extrema: bool = True) -> Any:
    from tvm.target import Target

    from tuning.engines import networks

    rewrites = Rewrites(channels_last=True, by_phase=by_phase, as_extrema=as_extrema)
    return networks.as_tuned(network, Target(target), rewrites)


def layouts(mod: Any) -> set[str]:
    """Of all convolutions."""
    from tvm import relax

    found: list[Any] = []
    relax.analysis.post_order_visit(mod["main"], found.append)
    return {str(one.attrs.data_layout) for one in found if isinstance(one, relax.Call) and ".conv" in str(one.op)}


def computed(mod: Any) -> Any:
    shape = [int(one) for one in mod["main"].params[0].ty.shape]
    return outputs(mod, np.random.default_rng(0).standard_normal(shape).astype("float32"))


@pytest.mark.parametrize(
    ("model", "given", "found"),
    [
        (classifier, "NCHW", {"NHWC"}),
        pytest.param(autoencoder, "NCHW", {"NHWC"}, marks=pytest.mark.rare),
        pytest.param(of_sounds, "NCW", {"NWC"}, marks=pytest.mark.rare),
        pytest.param(of_videos, "NCDHW", {"NDHWC"}, marks=pytest.mark.rare),
        (with_an_odd_output, "NCHW", {"NHWC", "NCHW"}),
    ],
)
def test_channels_come_last(model: Callable[[], Model], given: str, found: set[str], tmp_path: Path) -> None:
    network = read(model(), tmp_path)
    mod = as_tuned(network)
    assert layouts(mod) == found
    assert layouts(network.mod) == {given}
    expected = computed(network.mod)
    assert computed(mod) == pytest.approx(expected, abs=1e-5 * float(np.abs(expected).max()))


@pytest.mark.rare
def test_transposed_convolutions_over_zeros_keep_their_channels_first(tmp_path: Path) -> None:
    """TVM's functions can't do otherwise. So there would be too many transpositions."""
    network = read(autoencoder(), tmp_path)
    assert as_tuned(network, by_phase=False) is network.mod


def test_few_convolutions_arent_worth_transpositions(tmp_path: Path) -> None:
    model = Model(8, 8)
    model.block()
    network = read(model, tmp_path)
    assert as_tuned(network) is network.mod


def test_clipped_activations_keep_the_layout(tmp_path: Path) -> None:
    """As MobileNet V2 has. TVM's importer makes functions of them, not operators."""
    model = Model(8, 8)
    for _ in range(4):
        model.block()
        model.node("Clip", model.const(np.float32(0)), model.const(np.float32(6)))
    network = read(model, tmp_path)
    mod = as_tuned(network)
    assert layouts(mod) == {"NHWC"}
    expected = computed(network.mod)
    assert expected.max() == 6
    assert computed(mod) == pytest.approx(expected, abs=1e-5)


def test_clipped_activations_of_earlier_opsets_keep_the_layout(tmp_path: Path) -> None:
    """As files of MobileNet V2 have. The bounds are written into the functions that TVM's importer makes."""
    from tuning.engines import networks

    model = activated("Clip", min=-0.5, max=0.5).made()
    model.opset_import[0].version = 9
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    network = networks.build(NetworkSpec("model", {}, ModelFile("onnx", str(tmp_path / "model.onnx"))))
    mod = as_tuned(network)
    assert layouts(mod) == {"NHWC"}
    expected = computed(network.mod)
    assert (expected.min(), expected.max()) == (-0.5, 0.5)
    assert computed(mod) == pytest.approx(expected, abs=1e-5)


def activated(kind: str, **attributes: Any) -> Model:
    """With an operator for which TVM transposes data."""
    model = Model(8, 8)
    for _ in range(4):
        model.block()
        model.node(kind, **attributes)
    return model


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("LeakyRelu", {"alpha": 0.1}),
        pytest.param("LeakyRelu", {"alpha": 0.0}, marks=pytest.mark.rare),
        pytest.param("LeakyRelu", {"alpha": 1.0}, marks=pytest.mark.rare),
        ("HardSwish", {}),
        pytest.param("HardSigmoid", {}, marks=pytest.mark.rare),
    ],
    ids=str,
)
def test_activations_as_extrema_keep_the_layout(kind: str, attributes: dict[str, float], tmp_path: Path) -> None:
    network = read(activated(kind, **attributes), tmp_path)
    mod = as_tuned(network)
    assert layouts(mod) == {"NHWC"}
    assert computed(mod) == pytest.approx(computed(network.mod), abs=1e-5)
    assert as_tuned(network, as_extrema=False) is network.mod


@pytest.mark.parametrize("slope", [-0.1, 1.5])
def test_leaky_relus_that_arent_maxima_stay_as_they_are(slope: float, tmp_path: Path) -> None:
    network = read(activated("LeakyRelu", alpha=slope), tmp_path)
    assert as_tuned(network) is network.mod


def test_bounds_of_integers_stay_as_they_are() -> None:
    from tvm import relax

    from tuning.engines.networks.uploaded import activations

    block = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4,), "int64"))
    with block.function("main", [x]):
        with block.dataflow():
            output = block.emit_output(relax.op.clip(x, 0, float("inf")))
        block.emit_func_output(output)
    mod = block.get()
    assert activations.as_extrema(mod) is mod


def test_functions_of_a_module_that_are_only_named_so_stay_as_they_are() -> None:
    from tvm import relax
    from tvm.script import from_source

    from tuning.engines.networks.uploaded import activations

    function = from_source("""# from tvm.script import tirx as T
@T.prim_func(private=True)
def maximum(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
    for i in range(4):
        b[i] = T.max(a[3 - i], T.float32(0))
""")
    block = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    with block.function("main", [x]):
        with block.dataflow():
            output = block.emit_output(relax.call_tir(block.add_func(function, "maximum"), [x], x.ty))
        block.emit_func_output(output)
    mod = block.get()
    assert activations.as_extrema(mod) is mod


def test_what_tvm_cant_convert_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from tvm import relax

    def refuse(*_: Any) -> Any:
        raise ValueError("no such layout")

    network = read(classifier(), tmp_path)
    monkeypatch.setattr(relax.transform, "ConvertLayout", refuse)
    assert as_tuned(network) is network.mod
    assert "stays as it is: TVM can't convert it: ValueError: no such layout" in caplog.text


def test_what_tvm_cant_lower_then_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from tvm import relax

    network = read(classifier(), tmp_path)
    lower = relax.transform.LegalizeOps
    left: list[list[str] | None] = [["relax.nn.max_pool2d"], None]
    monkeypatch.setattr(relax.transform, "LegalizeOps", lambda: lower(skip_ops=left.pop(0)))
    assert as_tuned(network) is network.mod
    assert "TVM has no function for relax.nn.max_pool2d." in caplog.text


def test_gpus_compute_as_given(tmp_path: Path) -> None:
    network = read(classifier(), tmp_path)
    gpu = {"kind": "cuda", "arch": "sm_80", "max_threads_per_block": 1024, "max_shared_memory_per_block": 49152}
    assert as_tuned(network, gpu) is network.mod


def test_built_in_networks_have_the_layout_that_was_chosen() -> None:
    from tuning.engines import networks

    network = networks.build(NetworkSpec("resnet-18", {"layout": "NCHW"}), image=32)
    assert as_tuned(network) is network.mod


@pytest.mark.rare
def test_a_library_computes_activations_as_its_run_did(tmp_path: Path) -> None:
    network = activated("HardSwish").saved(tmp_path / "model.onnx")
    asked = start(tmp_path / "work", network=network, trials_budget=8, options=options(activations="extrema"))
    with Engine(asked, tmp_path / "console.log") as engine:
        engine.to_the_end()
        (extracted,) = [event for event in engine.seen if isinstance(event, TasksExtracted)]
    assert any("minimum" in task.name for task in extracted.tasks)
    target, folder = target_of(engine), tmp_path / "library"
    built = build(network, target, best(engine), folder, rewrites=Rewrites(channels_last=True, as_extrema=True))
    assert built.untuned == []
    assert prove(network, target, folder).verified


@pytest.mark.parametrize("data_layout", ["channels_last", pytest.param("as_given", marks=pytest.mark.rare)])
def test_a_library_has_the_layout_of_its_run(tmp_path: Path, data_layout: Any) -> None:
    """Inputs and outputs stay as the file says."""
    network = autoencoder().saved(tmp_path / "model.onnx")
    asked = start(tmp_path / "work", network=network, trials_budget=8, options=options(data_layout=data_layout))
    with Engine(asked, tmp_path / "console.log") as engine:
        engine.to_the_end()
        (extracted,) = [event for event in engine.seen if isinstance(event, TasksExtracted)]
    is_last = data_layout == "channels_last"
    assert ("transpose" in {task.name for task in extracted.tasks}) == is_last
    target, folder = target_of(engine), tmp_path / "library"
    built = build(network, target, best(engine), folder, rewrites=Rewrites(channels_last=is_last, by_phase=True))
    assert built.used
    assert [one.shape for one in built.inputs] == [[2, 8, 8, 8]]
    assert prove(network, target, folder).verified
