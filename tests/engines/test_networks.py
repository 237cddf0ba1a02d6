from __future__ import annotations

from typing import Any

import pytest

from tuning.engines.protocol import NetworkSpec, TaskInfo

pytestmark = [pytest.mark.tvm, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.


def tasks(name: str, **options: Any) -> tuple[int, list[TaskInfo]]:
    """A network's parameters and its tasks."""
    from tvm.target import Target

    from tuning.engines import extraction, networks

    network = networks.build(NetworkSpec(name, options))
    target = Target({"kind": "llvm", "num-cores": 2})
    extracted = extraction.extract(extraction.legalized(network.mod, target), target)
    return network.parameters, [extraction.describe(index, task) for index, task in enumerate(extracted)]


def total_flop(infos: list[TaskInfo]) -> float:
    return sum(info.flop * info.weight for info in infos)


def test_resnet18_is_the_published_network() -> None:
    parameters, infos = tasks("resnet-18")
    assert parameters == 11_689_512
    assert total_flop(infos) == pytest.approx(2 * 1.814e9, rel=0.005), (
        "1.81 billion multiply-adds, by the torchvision table"
    )
    assert len(infos) == 18
    convolutions = [info for info in infos if "conv2d" in info.name]
    assert sum(info.weight for info in convolutions) == 20
    assert infos[0].args[0].shape == [1, 224, 224, 3]
    assert infos[0].args[1].shape == [7, 7, 3, 64]
    assert infos[-1].args[-1].shape == [1, 1000]


def test_mlp_is_two_dense_layers() -> None:
    parameters, infos = tasks("mlp", batch=3)
    assert parameters == 784 * 128 + 128 + 128 * 10 + 10
    assert [info.args[0].shape for info in infos] == [[3, 784], [3, 128]]
    assert [info.flop for info in infos] == [3 * (2 * 784 * 128 + 128 + 128), 3 * (2 * 128 * 10 + 10)]


@pytest.mark.parametrize("name", ["mlp", "resnet-18"])
def test_no_task_is_about_weights_alone(name: str) -> None:
    """Parameters are bound and folded, or their transposes would count in the estimate."""
    _, infos = tasks(name)
    assert not [info.name for info in infos if "transpose" in info.name or "reshape" in info.name or not info.flop]


def test_a_task_tells_its_shapes_with_the_output_last() -> None:
    _, (info,) = tasks("matmul", n=96)
    assert (info.name, info.weight, info.flop) == ("matmul", 1, 2.0 * 96**3)
    assert [(arg.name, arg.shape, arg.dtype) for arg in info.args] == [
        ("a", [96, 96], "float32"),
        ("b", [96, 96], "float32"),
        ("matmul", [96, 96], "float32"),
    ]


def test_names_are_unique_and_the_same_each_time() -> None:
    _, once = tasks("resnet-18")
    _, again = tasks("resnet-18")
    assert once == again
    assert len({info.name for info in once}) == len({info.workload_hash for info in once}) == len(once)
