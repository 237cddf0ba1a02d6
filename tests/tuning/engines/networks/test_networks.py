from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.tuning.engines.reference import Reference
from tuning.engines.wire.catalog import BUILTIN, options_of
from tuning.engines.wire.protocol import NetworkSpec, TaskInfo

pytestmark = [pytest.mark.tvm, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.

PUBLISHED = {  # num_params and _ops (10⁹ multiply-adds) from torchvision's tables of weights, 0.15 and later
    "resnet-18": (11_689_512, 1.814e9),
    "resnet-34": (21_797_672, 3.664e9),
    "resnet-50": (25_557_032, 4.089e9),
    "resnet-101": (44_549_160, 7.801e9),
    "resnet-152": (60_192_808, 11.514e9),
    "squeezenet_v1.1": (1_235_496, 0.349e9),
    "resnet3d-18": (33_371_472, 40.697e9),
    # torchvision counts the auxiliary classifier's parameters, but not its multiply-adds.
    "inception_v3": (27_161_264 - (768 * 128 + 2 * 128 + 128 * 768 * 25 + 2 * 768 + 768 * 1000 + 1000), 5.713e9),
    # Howard et al. 2017, table 8: 569 million, and 4.2 million parameters; Keras lists 4,231,976 trainable ones.
    "mobilenet": (4_231_976, 569e6),
    "mlp": (784 * 128 + 128 + 128 * 10 + 10, 784 * 128 + 128 * 10),
    "matmul": (0, 128**3),
    "conv2d": (3 * 3 * 64 * 64 + 64, 56 * 56 * 64 * 64 * 9),
}
SMALLEST = {"inception_v3": 75, "resnet3d-18": 8, "mlp": None, "matmul": None, "conv2d": None}
"""The smallest image for which every layer computes something, if it isn't 32."""


def build(name: str, image: int | None = None, **options: Any) -> Any:
    from tuning.engines import networks

    return networks.build(NetworkSpec(name, options), image=image)


def tasks(name: str, **options: Any) -> list[TaskInfo]:
    return tasks_of(build(name, **options).mod)


def tasks_of(mod: Any) -> list[TaskInfo]:
    from tvm.target import Target

    from tuning.engines.networks import extraction

    target = Target({"kind": "llvm", "num-cores": 2})
    extracted = extraction.extract(extraction.legalized(mod, target), target)
    return [extraction.describe(index, task) for index, task in enumerate(extracted)]


def total_flop(infos: list[TaskInfo]) -> float:
    return sum(info.flop * info.weight for info in infos)


def multiply_adds(mod: Any) -> int:
    """The multiply-adds of convolutions and matrix products, from the operators' shapes before lowering."""

    def shape(x: Any) -> list[int]:
        return [int(extent) for extent in x.ty.shape]

    total = 0
    for binding in mod["main"].body.blocks[0].bindings:
        operator = getattr(getattr(binding.value, "op", None), "name", "")
        if operator == "relax.matmul":
            total += prod(shape(binding.var)) * shape(binding.value.args[0])[-1]
        elif "conv" in operator:
            kernel = shape(binding.value.args[1])
            total += prod(shape(binding.var)) * prod(kernel) // kernel[binding.value.attrs.kernel_layout.index("O")]
    return total


def compute(mod: Any, *inputs: NDArray[Any]) -> NDArray[Any]:
    """The output of the untuned network, compiled by TVM."""
    import tvm
    from tvm import relax
    from tvm.target import Target, codegen

    from tuning.engines.networks import extraction

    target = Target({"kind": "llvm", "mcpu": str(codegen.llvm_get_system_cpu())})
    machine = relax.VirtualMachine(relax.build(extraction.legalized(mod, target), target), tvm.cpu())
    result: NDArray[Any] = machine["main"](*(tvm.runtime.tensor(one) for one in inputs)).numpy()
    return result


def computed_and_expected(name: str, **options: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """The outputs of TVM and of NumPy, which is always channels last, for the same input."""
    from tuning.engines import networks

    image, checked = SMALLEST.get(name, 32), options_of(name, options)
    layout, dtype = options.get("layout", ""), getattr(checked, "dtype")  # noqa: B009 - each struct has it
    shapes = networks.shapes(name, checked, image)
    inputs = [np.random.default_rng(1).standard_normal(shape).astype(dtype) for shape in shapes.values()]
    plain = [np.moveaxis(one, 1, -1) if layout.startswith("NC") else one for one in inputs]
    expected = networks.BODIES[name](Reference(), *(one.astype("float32") for one in plain))
    return compute(build(name, image, **options).mod, *inputs), expected


def assert_close(computed: NDArray[Any], expected: NDArray[Any], tolerance: float) -> None:
    """Compare relative to the spread of all outputs, since a single output can be near 0."""
    assert computed.shape == expected.shape
    assert expected.std() > 0.1, "outputs near 0 would agree whatever was computed"
    assert np.abs(computed.astype("float64") - expected).max() <= tolerance * expected.std()


@pytest.mark.parametrize("name", PUBLISHED)
def test_it_is_the_published_network(name: str) -> None:
    network = build(name)
    parameters, published = PUBLISHED[name]
    assert network.parameters == parameters
    assert multiply_adds(network.mod) == pytest.approx(published, rel=0.0015), "published with 3 digits"


@pytest.mark.parametrize(("depth", "blocks"), [(34, (3, 4, 6, 3)), (50, (3, 4, 6, 3))])
def test_a_deeper_video_network_has_torchvisions_layers(depth: int, blocks: tuple[int, ...]) -> None:
    """No weights are published for these, so we add up the parameters of `VideoResNet`'s layers."""
    stem, n_in, stages = 3 * 7 * 7 * 3 * 64 + 2 * 64, 64, 0
    for stage, count in enumerate(blocks):
        n = 64 << stage
        n_out = n if depth == 34 else 4 * n
        shortcut = n_in * n_out + 2 * n_out if n_in != n_out else 0
        if depth == 34:
            stages += shortcut + 27 * n * (n_in + n) + 4 * n + (count - 1) * (2 * 27 * n * n + 4 * n)
        else:
            inner = 27 * n * n + n * n_out + 4 * n + 2 * n_out
            stages += shortcut + (n_in + (count - 1) * n_out) * n + count * inner
        n_in = n_out
    assert build(f"resnet3d-{depth}", image=16).parameters == stem + stages + n_in * 400 + 400


LAST, FIRST = {"layout": "NHWC"}, {"layout": "NCHW"}
NUMERIC: list[tuple[str, dict[str, Any]]] = [
    ("squeezenet_v1.1", LAST | {"batch": 2}),
    ("mlp", {"batch": 3}),
    ("matmul", {"n": 96}),
]
LARGE: list[tuple[str, dict[str, Any]]] = [
    ("resnet-50", FIRST),
    ("resnet-50", LAST),
    ("mobilenet", FIRST),
    ("mobilenet", LAST),
    ("squeezenet_v1.1", FIRST),
    ("inception_v3", LAST),
    ("inception_v3", FIRST),
    ("resnet3d-18", {"layout": "NCDHW"}),  # The same blocks as resnet-18 and resnet-34.
    ("resnet3d-18", {"layout": "NDHWC"}),
]
"""What takes numpy up to ten seconds of a core each."""


@pytest.mark.parametrize(
    ("name", "options"), [*NUMERIC, *(pytest.param(*large, marks=pytest.mark.rare) for large in LARGE)]
)
def test_it_computes_what_numpy_does(name: str, options: dict[str, Any]) -> None:
    computed, expected = computed_and_expected(name, **options)
    assert computed.dtype == "float32"
    assert_close(computed, expected, 1e-3)


@pytest.mark.parametrize(
    "name", ["mlp", "matmul", *(pytest.param(one, marks=pytest.mark.rare) for one in ("resnet-18", "mobilenet"))]
)
def test_float16_computes_the_same_except_for_rounding(name: str) -> None:
    computed, expected = computed_and_expected(name, dtype="float16")
    assert computed.dtype == "float16"
    assert_close(computed, expected, 0.1)


@pytest.mark.parametrize("name", ["resnet-152", "mobilenet"])
def test_a_deep_network_neither_explodes_nor_vanishes(name: str) -> None:
    from tuning.engines import networks

    image = np.random.default_rng(1).standard_normal((1, 32, 32, 3)).astype("float32")
    output = networks.BODIES[name](Reference(), image)
    assert 0.1 < output.std() < 100


@pytest.mark.parametrize("name", BUILTIN)
def test_tasks_cover_exactly_the_network(name: str) -> None:
    """Names are unique, no work is lost or added, and no task rearranges weights, which would distort the estimate."""
    mod = build(name).mod
    infos = tasks_of(mod)
    assert len({info.name for info in infos}) == len({info.workload_hash for info in infos}) == len(infos)
    assert not [info.name for info in infos if "transpose" in info.name or "reshape" in info.name]
    assert not [info.name for info in infos if not info.flop and not info.name.startswith("concatenate")]
    assert 1 <= total_flop(infos) / (2 * multiply_adds(mod)) < 1.02, "the rest is biases, ReLUs and pools"


@pytest.mark.parametrize(
    ("name", "layout"), [("resnet-18", "NCHW"), ("inception_v3", "NCHW"), ("resnet3d-18", "NCDHW")]
)
def test_channels_first_has_the_same_tasks_with_other_axes(name: str, layout: str) -> None:
    last, first = tasks(name), tasks(name, layout=layout)
    assert [(info.flop, info.weight) for info in last] == [(info.flop, info.weight) for info in first]
    assert first[0].args[0].shape[1] == 3
    assert not [info.name for info in first if "transpose" in info.name or "reshape" in info.name]


def test_resnet18_has_its_convolutions() -> None:
    infos = tasks("resnet-18")
    assert len(infos) == 18
    assert sum(info.weight for info in infos if "conv2d" in info.name) == 20
    assert infos[0].args[0].shape == [1, 224, 224, 3]
    assert infos[0].args[1].shape == [7, 7, 3, 64]
    assert infos[-1].args[-1].shape == [1, 1000]


def test_mlp_is_two_dense_layers() -> None:
    infos = tasks("mlp", batch=3)
    assert [info.args[0].shape for info in infos] == [[3, 784], [3, 128]]
    assert [info.flop for info in infos] == [3 * (2 * 784 * 128 + 128 + 128), 3 * (2 * 128 * 10 + 10)]


def test_tasks_have_the_batch_and_data_type() -> None:
    infos = tasks("mobilenet", batch=4, dtype="float16")
    assert {arg.dtype for info in infos for arg in info.args} == {"float16"}
    assert infos[0].args[0].shape == [4, 224, 224, 3]


def test_a_task_lists_its_arguments_with_the_output_last() -> None:
    (info,) = tasks("matmul", n=96)
    assert (info.name, info.weight, info.flop) == ("matmul", 1, 2.0 * 96**3)
    assert [(arg.name, arg.shape, arg.dtype) for arg in info.args] == [
        ("a", [96, 96], "float32"),
        ("b", [96, 96], "float32"),
        ("matmul", [96, 96], "float32"),
    ]


def test_two_builds_have_the_same_tasks() -> None:
    assert tasks("resnet-18") == tasks("resnet-18")
