"""Records are applied to the network that they were found for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.tuning.engines.running import Engine, start
from tuning.engines.wire.protocol import NetworkSpec, TasksExtracted

pytestmark = [pytest.mark.tvm, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.

CONV = NetworkSpec("conv2d", {"size": 8, "channels": 16})


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("conv")
    with Engine(start(folder / "work", network=CONV, trials_budget=8), folder / "console.log") as engine:
        engine.to_the_end()
        yield engine


def legalized(target: Any) -> Any:
    from tuning.engines import networks
    from tuning.engines.networks import extraction

    return extraction.legalized(networks.build(CONV).mod, target)


def compute(mod: Any, target: Any, image: Any) -> Any:
    import tvm
    from tvm import relax

    return relax.VirtualMachine(relax.build(mod, target), tvm.cpu())["main"](tvm.runtime.tensor(image)).numpy()


def test_a_tuned_network_computes_what_the_untuned_one_does(tuned: Engine) -> None:
    from tvm.target import Target

    from tuning.engines.oneshot.applying import applied

    (extracted,) = [event for event in tuned.seen if isinstance(event, TasksExtracted)]
    target = Target(extracted.target)
    best = min((trial for trial in tuned.trials if trial.latency_s), key=lambda trial: trial.latency_s or 0)
    found = applied(legalized(target), target, [str(best.record)])
    assert (found.tuned, found.untuned) == ([extracted.tasks[0].name], [])
    image = np.random.default_rng(0).standard_normal((1, 8, 8, 16), dtype=np.float32)
    assert compute(found.mod, target, image) == pytest.approx(compute(legalized(target), target, image), abs=1e-4)
    assert len(found.mod.functions) == 2, (
        "the weight was packed at compile time, and the function that packed it was removed"
    )


def test_it_names_functions_that_no_record_fits() -> None:
    from tvm.target import Target

    from tuning.engines.oneshot.applying import applied

    target = Target({"kind": "llvm", "num-cores": 2})
    mod = legalized(target)
    found = applied(mod, target, [])
    assert (found.tuned, found.untuned) == ([], ["fused_conv2d_add"])


def test_tvms_own_pipelines_find_the_records() -> None:
    """They look up functions by their structure, including attributes."""
    from tvm import relax
    from tvm.s_tir import meta_schedule as ms
    from tvm.target import Target

    from tuning.engines import networks
    from tuning.engines.networks import extraction

    def workloads(mod: Any) -> set[str]:
        return {ms.utils.shash2hex(task.dispatched[0]) for task in ms.relax_integration.extract_tasks(mod, target)}

    target = Target({"kind": "llvm", "num-cores": 2})
    mod = networks.build(NetworkSpec("squeezenet_v1.1"), image=64).mod
    with target:
        stock = relax.transform.AttachAttrLayoutFreeBuffers()(relax.get_pipeline("zero")(mod))
    assert workloads(extraction.legalized(mod, target)) == workloads(stock)


def test_only_constants_may_be_packed() -> None:
    from tvm.target import Target

    cpu, gpu = Target({"kind": "llvm", "num-cores": 2}), Target("nvidia/nvidia-a100")
    function = legalized(cpu)["fused_conv2d_add"]
    assert list(function.attrs["layout_free_buffers"]) == [1, 2], "kernel and bias, not the image"
    assert "layout_free_buffers" not in legalized(gpu)["fused_conv2d_add"].attrs


def test_a_weight_that_is_constant_in_only_one_call_isnt_packed() -> None:
    from tvm import relax
    from tvm.target import Target

    from tuning.engines.networks import extraction

    block, ones = relax.BlockBuilder(), relax.const(np.ones((8, 8), "float32"))
    x = relax.Var("x", relax.TensorType((8, 8), "float32"))
    with block.function("main", [x]):
        with block.dataflow():
            y = block.emit(relax.op.matmul(x, ones))
            output = block.emit_output(relax.op.matmul(y, x))
        block.emit_func_output(output)
    mod = extraction.legalized(block.get(), Target({"kind": "llvm", "num-cores": 2}))
    (product,) = [function for function in mod.functions.values() if not isinstance(function, relax.Function)]
    assert list(product.attrs["layout_free_buffers"]) == []
