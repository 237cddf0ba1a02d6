"""Convolutions by other algorithms compute the same, wherever they are offered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.tuning.engines.running import Engine, options, start
from tuning.engines.wire.options.rewrites import Rewrites
from tuning.engines.wire.protocol import NetworkSpec, Preferred, TasksExtracted

pytestmark = [pytest.mark.tvm, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.
CONV = NetworkSpec("conv2d", {"size": 8, "channels": 16})


def cpu() -> Any:
    from tvm.target import Target

    return Target({"kind": "llvm", "num-cores": 2})


def conv(
    size: int = 8, channels: int = 16, *, layout: str = "NHWC", kernel: int = 3, dtype: str = "float32", **attrs: Any
) -> Any:
    """A network of one convolution of a batch of 2 images, without a bias, with 32 filters."""
    from tvm import relax

    groups = attrs.get("groups", 1)
    extents = {"N": 2, "H": size, "W": size, "C": channels, "O": 32, "I": channels // groups}
    weights = np.random.default_rng(1).standard_normal((kernel, kernel, channels // groups, 32)).astype(dtype)
    order = "HWIO" if layout == "NHWC" else "OIHW"
    block = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([extents[axis] for axis in layout], dtype))
    with block.function("main", [x]):
        with block.dataflow():
            ours = relax.const(np.ascontiguousarray(weights.transpose(["HWIO".index(axis) for axis in order])))
            y = relax.op.nn.conv2d(x, ours, data_layout=layout, kernel_layout=order, **attrs)
            output = block.emit_output(y)
        block.emit_func_output(output)
    return block.get()


def two_branches() -> Any:
    """Two convolutions that end in one sum, so that the first one's function is called last."""
    from tvm import relax

    random = np.random.default_rng(1)
    block, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((1, 12, 12, 16), "float32"))

    def layer(data: Any) -> Any:
        weights = relax.const(random.standard_normal((3, 3, 16, 16), dtype="float32"))
        y = relax.op.nn.conv2d(data, weights, padding=1, data_layout="NHWC", kernel_layout="HWIO")
        return block.emit(y)

    with block.function("main", [x]):
        with block.dataflow():
            first, second = layer(x), layer(x)
            total = block.emit(relax.op.add(first, block.emit(relax.op.nn.relu(second))))
            output = block.emit_output(relax.op.nn.relu(layer(total)))
        block.emit_func_output(output)
    return block.get()


def compute(mod: Any) -> Any:
    """The output for random numbers."""
    import tvm
    from tvm import relax

    shape = [int(extent) for extent in mod["main"].params[0].ty.shape]
    given = np.random.default_rng(0).standard_normal(shape, dtype="float32")
    return relax.VirtualMachine(relax.build(mod, cpu()), tvm.cpu())["main"](tvm.runtime.tensor(given)).numpy()


@pytest.mark.parametrize("in_parts", [True, False], ids=["in parts", "step by step"])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize(
    ("size", "padding", "m"),
    [(12, 1, 4), (12, 0, 4), (13, 2, 4), (14, [0, 1, 2, 1], 4), (4, 1, 2), (5, 1, 2), (6, 0, 2)],
    ids=["whole tiles", "no padding", "wide padding", "uneven", "few tiles", "few, cut off", "few, no padding"],
)
def test_winograds_algorithm_computes_a_convolution(
    layout: str, size: int, padding: Any, m: int, in_parts: bool
) -> None:
    from tuning.engines.networks import algorithms, extraction

    mod = conv(size, layout=layout, padding=padding)
    by_winograd = algorithms.chosen(mod, cpu(), lambda _other, _direct: True, in_parts=in_parts)
    assert [str(one.name_hint) for one in by_winograd.get_global_vars() if "winograd" in str(one.name_hint)] == [
        f"winograd_f{m}_conv2d"
    ]
    expected = compute(extraction.legalized(mod, cpu()))
    assert compute(by_winograd) == pytest.approx(expected, abs=1e-5 * float(np.abs(expected).max()))


@pytest.mark.parametrize(
    "chosen", [[], [0, 2], *(pytest.param(one, marks=pytest.mark.rare) for one in ([0], [1], [2], [0, 1, 2]))], ids=str
)
def test_each_layer_is_computed_as_chosen(chosen: list[int]) -> None:
    from tuning.engines.networks import algorithms, extraction

    asked: list[int] = []

    def is_faster(_other: Any, _direct: Any) -> bool:
        asked.append(len(asked))
        return asked[-1] in chosen

    mod = two_branches()
    mixed = algorithms.chosen(mod, cpu(), is_faster, in_parts=True)
    called = [str(call.args[0].name_hint) for call in extraction.calls(mixed["main"])]
    assert [nth for nth, name in enumerate(called) if "winograd" in name] == chosen
    expected = compute(extraction.legalized(mod, cpu()))
    assert compute(mixed) == pytest.approx(expected, abs=1e-5 * float(np.abs(expected).max()))


@pytest.mark.parametrize(
    "mod",
    [
        {"strides": 2},
        {"dilation": 2},
        {"groups": 2},
        {"kernel": 1},
        {"kernel": 5},
        {"channels": 3},
        {"dtype": "float16"},
        {"padding": 3},
    ],
    ids=str,
)
def test_other_convolutions_have_one_algorithm(mod: dict[str, Any]) -> None:
    assert rivals(conv(**{"size": 8, **mod}), cpu()) == []


def test_gpus_have_one_algorithm() -> None:
    from tvm.target import Target

    assert rivals(conv(), Target("nvidia/nvidia-a100")) == []


def test_each_task_that_has_another_algorithm_is_named() -> None:
    from tuning.engines import networks

    found = rivals(networks.build(NetworkSpec("resnet-18"), image=40).mod, cpu())
    assert [(of, str(task.task_name).partition("_conv2d")[0]) for task, of in found] == [
        *((of, "fused_winograd_f4") for of in (2, 3)),
        *((of, "fused_winograd_f2") for of in (6, 7, 10, 11, 14, 15)),
    ]


def rivals(mod: Any, target: Any) -> list[Any]:
    from tuning.engines.networks import algorithms, extraction

    extracted = extraction.extract(extraction.legalized(mod, target), target)
    return algorithms.rivals(mod, target, extracted, in_parts=True)


def test_a_budget_that_is_too_small_for_both_goes_to_the_direct_one(tmp_path: Any) -> None:
    """Half of it isn't enough for 4 trials with each."""
    given = start(tmp_path / "work", network=CONV, trials_budget=10, options=options(algorithms="fastest"))
    with Engine(given, tmp_path / "console.log") as engine:
        engine.to_the_end()
    assert {trial.task for trial in engine.trials} == {0}
    told = "10 trials are too few to try another algorithm for each convolution. Not tried for task 0."
    assert told in (tmp_path / "console.log").read_text()


@pytest.mark.parametrize("winograd", ["in_parts", pytest.param("step_by_step", marks=pytest.mark.rare)])
def test_both_are_tuned_and_the_faster_one_counts(winograd: str, tmp_path: Any) -> None:
    """Also once the run is resumed. A library is built with the records of either."""
    from tests.tuning.engines.compiling import best, build, prove, target_of

    chosen = options(algorithms="fastest", winograd=winograd)
    asked = start(tmp_path / "work", network=CONV, trials_budget=16, options=chosen)
    with Engine(asked, tmp_path / "console.log") as engine:
        engine.to_the_end()
    (extracted,) = [event for event in engine.seen if isinstance(event, TasksExtracted)]
    assert [(task.name, task.weight) for task in extracted.tasks] == [
        ("fused_conv2d_add", 1),
        ("fused_winograd_f2_conv2d_add", 0),
    ]
    direct, winograd_task = extracted.tasks
    assert (direct.computes, winograd_task.computes) == (None, direct.workload_hash)
    records = {record.text: record for record in best(engine)}
    task_of = {trial.record: trial.task for trial in engine.trials}
    fastest = min(records.values(), key=lambda record: record.latency_s)
    told = [event for event in engine.seen if isinstance(event, Preferred)]
    assert told[-1].task == task_of[fastest.text]
    again = start(tmp_path / "work", network=CONV, trials_budget=17, trials_done=16, options=chosen)
    with Engine(again, tmp_path / "console.log") as resumed:
        resumed.to_the_end()
    preferred = [event for event in resumed.seen if isinstance(event, Preferred)]
    assert preferred[0] == told[-1], "a resumed process tells again what counts"
    (by_winograd,) = [record for record in records.values() if task_of[record.text] == 1]
    folder = tmp_path / "library"
    in_parts = winograd == "in_parts"
    built = build(CONV, target_of(engine), [by_winograd], folder, rewrites=Rewrites(algorithms=True, in_parts=in_parts))
    assert ([one.function for one in built.used], built.untuned) == (["fused_winograd_f2_conv2d_add"], [])
    proven = prove(CONV, target_of(engine), folder)
    assert proven.verified
