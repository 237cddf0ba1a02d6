"""Products in bfloat16 compute what those of float32 do, apart from rounding."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from functools import partial
from math import prod
from typing import Any

import numpy as np
import pytest

from tuning.engines.wire.errors import Refused
from tuning.engines.wire.targets import BFLOAT16

pytestmark = [pytest.mark.tvm, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.
ZEN_4 = {"kind": "llvm", "mcpu": "znver4", "mtriple": "x86_64-linux-gnu", "num-cores": 2}
GRAVITON_3 = {"kind": "llvm", "mcpu": "neoverse-v1", "mtriple": "aarch64-linux-gnu", "num-cores": 2}
MOST_OFF = 0.01
"""Of the largest output. Each factor is off by at most 2⁻⁹ of itself, and these errors average out."""
CONVOLUTIONS: dict[str, dict[str, Any]] = {
    "1 × 1": {"kernel": 1},
    "padded": {"kernel": 3, "padding": 1},
    "strided": {"kernel": 7, "padding": 3, "strides": 2, "channels": 3},
    "dilated, odd": {"kernel": 3, "padding": (1, 2, 0, 1), "dilation": 2, "channels": 5, "filters": 10},
}


@pytest.fixture(autouse=True, scope="module")
def _intrinsics() -> None:
    from tuning.engines.targets import intrinsics

    intrinsics.load("llvm")
    importlib.import_module(f"{intrinsics.PACKAGE}.arm_cpu")


def network(call: Any, *inputs: Any) -> Any:
    """The network of one function of these inputs."""
    from tvm import relax

    block = relax.BlockBuilder()
    with block.function("main", list(inputs)):
        with block.dataflow():
            output = block.emit_output(call(block))
        block.emit_func_output(output)
    return block.get()


def tensor(name: str, shape: tuple[int, ...], dtype: str = "float32") -> Any:
    from tvm import relax

    return relax.Var(name, relax.TensorType(shape, dtype))


def constant(*shape: int, dtype: str = "float32") -> Any:
    from tvm import relax

    return relax.const(np.random.default_rng(1).standard_normal(shape).astype(dtype))


def matmul(rows: tuple[int, ...] = (12,), channels: int = 32, filters: int = 48) -> Any:
    """With a bias and GELU, whose parts share their operand."""
    from tvm import relax

    x = tensor("x", (*rows, channels))
    added = relax.op.add(relax.op.matmul(x, constant(channels, filters)), constant(filters))
    return network(lambda block: relax.op.nn.gelu(block.emit(added)), x)


def conv(layout: str, kernel: int, channels: int = 16, filters: int = 32, **attrs: Any) -> Any:
    """Of a batch of 2 images, with a ReLU."""
    from tvm import relax

    order = "HWIO" if layout == "NHWC" else "OIHW"
    extents = {"N": 2, "H": 10, "W": 12, "C": channels, "O": filters, "I": channels}
    weights = constant(*({**extents, "H": kernel, "W": kernel}[axis] for axis in order))
    x = tensor("x", tuple(extents[axis] for axis in layout))
    y = relax.op.nn.conv2d(x, weights, data_layout=layout, kernel_layout=order, **attrs)
    return network(lambda block: relax.op.nn.relu(block.emit(y)), x)


def video() -> Any:
    from tvm import relax

    x = tensor("x", (1, 4, 6, 6, 8))
    weights = constant(3, 3, 3, 8, 16)
    y = relax.op.nn.conv3d(x, weights, padding=1, data_layout="NDHWC", kernel_layout="DHWIO")
    return network(lambda block: relax.op.nn.relu(block.emit(y)), x)


@pytest.fixture
def here() -> Any:
    """This machine's CPU, if it has the instruction."""
    from tuning.engines.targets import resolving

    found = resolving.resolve("this").target
    if "avx512bf16" not in resolving.needs(found):
        pytest.skip("this machine's CPU has no bfloat16 instructions")
    return target(found)


NETWORKS: dict[str, Callable[[], Any]] = {
    "matrix": matmul,
    "batch of matrices": lambda: matmul((2, 6)),
    "vector": lambda: matmul((1,), 64, 96),
    "odd numbers": lambda: matmul((5,), 31, 50),
    "video": video,
    **{
        f"{layout} {name}": partial(conv, layout, **given)
        for layout in ("NHWC", "NCHW")
        for name, given in CONVOLUTIONS.items()
    },
}


def target(given: dict[str, Any] | None = None) -> Any:
    from tvm.target import Target

    return Target(given or {"kind": "llvm", "num-cores": 2})


def legalized(mod: Any, given: Any, pairs: Any = None) -> Any:
    from tuning.engines.networks import extraction
    from tuning.engines.networks.bfloat16.rewriting import in_bfloat16

    return extraction.legalized(in_bfloat16(mod, pairs) if pairs else mod, given)


def outputs(mod: Any, given: Any) -> Any:
    """Of random data."""
    import tvm
    from tvm import relax

    shape = [int(extent) for extent in mod["main"].params[0].ty.shape]
    x = np.random.default_rng(2).standard_normal(shape).astype("float32")
    machine = relax.VirtualMachine(relax.build(mod, given), tvm.cpu())
    return machine["main"](tvm.runtime.tensor(x)).numpy()


def candidates(mod: Any, given: Any, number: int) -> Iterator[Any]:
    """The network's only task, scheduled as random trials of a run are."""
    import tvm
    from tvm.s_tir import meta_schedule as ms

    from tuning.engines.networks import extraction

    (task,) = extraction.extract(mod, given)
    # Otherwise a bias has another shape once it is scheduled.
    workload = tvm.IRModule({"main": task.dispatched[0]["main"].without_attr("layout_free_buffers")})
    context = ms.TuneContext(
        workload,
        target=given,
        space_generator="post-order-apply",
        search_strategy="replay-trace",
        task_name=task.task_name,
        num_threads=1,
        rand_state=1,
    )
    context.pre_tuning(
        max_trials=number,
        num_trials_per_iter=number,
        design_spaces=context.generate_design_space(),
        database=ms.database.MemoryDatabase(),
        cost_model=None,
    )
    for candidate in context.generate_measure_candidates() or ():
        yield ms.database.TuningRecord(
            candidate.sch.trace, ms.database.Workload(workload), [1.0], given, candidate.args_info
        )


def scheduled(record: Any) -> Any:
    from tvm.s_tir import Schedule

    schedule = Schedule(record.workload.mod)
    record.trace.apply_to_schedule(schedule, remove_postproc=False)
    return schedule.mod


def assembly(record: Any, given: Any) -> str:
    import tvm

    return str(tvm.tirx.build(scheduled(record), target=given).inspect_source("asm"))


def off(found: Any, expected: Any) -> float:
    assert found.dtype == expected.dtype == "float32"
    return float(np.abs(found - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("name", NETWORKS)
def test_it_computes_the_same_except_for_rounding(name: str) -> None:
    mod = NETWORKS[name]()
    expected = outputs(legalized(mod, target()), target())
    computed = outputs(legalized(mod, target(), BFLOAT16["x86_64"]), target())
    assert 0 < off(computed, expected) < MOST_OFF


def test_lanes_of_any_number_compute_the_same() -> None:
    mod = matmul()
    wide, narrow = (outputs(legalized(mod, target(), BFLOAT16[arch]), target()) for arch in ("x86_64", "aarch64"))
    assert off(narrow, wide) < 1e-5


def test_only_products_with_constant_weights_change() -> None:
    """Weights take half of the memory. What else there is has the functions of a run in float32, so their records are shared."""
    from tvm import relax

    from tuning.engines.networks import extraction

    x = tensor("x", (8, 32))

    def layers(block: Any) -> Any:
        first = block.emit(relax.op.matmul(x, constant(32, 32)))
        scores = block.emit(relax.op.matmul(first, block.emit(relax.op.permute_dims(first))))
        return relax.op.nn.softmax(scores)

    mod, given = network(layers, x), target()
    before, after = legalized(mod, given), legalized(mod, given, BFLOAT16["x86_64"])
    tasks, ours = (extraction.extract(each, given) for each in (before, after))
    assert (tasks[0].task_name, ours[0].task_name) == ("matmul", "bfloat16_matmul")
    assert list(map(extraction.workload_hash, ours[1:])) == list(map(extraction.workload_hash, tasks[1:]))
    assert (constants(before), constants(after)) == ([("float32", 32 * 32)], [("bfloat16", 32 * 32)])


def constants(mod: Any) -> list[tuple[str, int]]:
    """The types of the network's weights, and how many numbers they have."""
    from tvm.ir import GenericConst

    from tuning.engines.networks import extraction

    arguments = [argument for call in extraction.calls(mod["main"]) for argument in call.args[1]]
    values = [argument.value for argument in arguments if isinstance(argument, GenericConst)]
    return [(str(value.dtype), prod(map(int, value.shape))) for value in values]


@pytest.mark.parametrize("name", ["between inputs", "of float16", "by groups"])
def test_it_refuses_a_network_without_such_products(name: str) -> None:
    from tvm import relax

    x, y = tensor("x", (8, 16)), tensor("y", (16, 8))
    halves, image = tensor("x", (8, 16), "float16"), tensor("x", (1, 8, 8, 16))
    grouped = {"groups": 2, "data_layout": "NHWC", "kernel_layout": "HWIO"}
    networks = {
        "between inputs": lambda: network(lambda _: relax.op.matmul(x, y), x, y),
        "of float16": lambda: network(lambda _: relax.op.matmul(halves, constant(16, 8, dtype="float16")), halves),
        "by groups": lambda: network(lambda _: relax.op.nn.conv2d(image, constant(3, 3, 8, 16), **grouped), image),
    }
    with pytest.raises(Refused, match="no products of float32 data with constant weights"):
        legalized(networks[name](), target(), BFLOAT16["x86_64"])


@pytest.mark.parametrize(
    ("given", "instruction"), [(ZEN_4, "vdpbf16ps"), (GRAVITON_3, "bfdot")], ids=["Zen 4", "Graviton 3"]
)
@pytest.mark.parametrize("name", ["matrix", "odd numbers", "NHWC padded"])
def test_candidates_have_the_cpus_instruction(name: str, given: dict[str, Any], instruction: str) -> None:
    """Also where this machine's CPU hasn't."""
    from tuning.engines.targets import resolving
    from tuning.engines.wire.targets import pairs_of_bfloat16

    found = target(given)
    mod = legalized(NETWORKS[name](), found, pairs_of_bfloat16(resolving.needs(given)))
    texts = [assembly(record, found) for record in candidates(mod, found, 2)]
    assert texts
    assert all(instruction in text for text in texts)
    assert not any("dot_bfloat16" in text for text in texts), "LLVM inlines it"


@pytest.mark.parametrize(
    "name", ["matrix", "vector", "odd numbers", "video", "NHWC strided", "NCHW padded", "NCHW dilated, odd"]
)
def test_candidates_compute_what_their_function_does(name: str, here: Any) -> None:
    mod = legalized(NETWORKS[name](), here, BFLOAT16["x86_64"])
    records = list(candidates(mod, here, 3))
    expected = called(records[0].workload.mod, here)
    for record in records:
        assert off(called(scheduled(record), here), expected) < 1e-5


def called(mod: Any, given: Any) -> Any:
    """The last argument of the module's function, after it was called with random ones."""
    import ml_dtypes
    import tvm
    from tvm.s_tir import meta_schedule as ms

    random = np.random.default_rng(3)
    infos = [one.as_json() for one in ms.arg_info.ArgInfo.from_entry_func(mod, remove_preproc=True)]
    arrays = [random.standard_normal(list(map(int, shape))) for _, _, shape in infos]
    types = [ml_dtypes.bfloat16 if str(dtype) == "bfloat16" else str(dtype) for _, dtype, _ in infos]
    arguments = [tvm.runtime.tensor(array.astype(dtype)) for array, dtype in zip(arrays, types, strict=True)]
    tvm.tirx.build(mod, target=given)["main"](*arguments)
    return arguments[-1].numpy()
