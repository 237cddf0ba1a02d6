"""TVM's default schedules for GPUs as candidates."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.tuning.engines import gpu_stand_in
from tests.tuning.engines.running import COLD, Engine, lines, options, start
from tuning.engines.wire.protocol import Finished, NetworkSpec

pytestmark = [pytest.mark.tvm, pytest.mark.rare, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.
H100 = "nvidia/nvidia-h100"


def context_of(network: str, **of_network: Any) -> Any:
    """TVM's, of the network's first task."""
    from tvm.s_tir import meta_schedule as ms
    from tvm.target import Target

    from tuning.engines import networks
    from tuning.engines.networks import extraction
    from tuning.engines.targets import intrinsics

    intrinsics.load("cuda")  # TVM would load all.
    target = Target(H100)
    mod = networks.build(NetworkSpec(network, of_network)).mod
    first, *_ = extraction.extract(extraction.legalized(mod, target), target)
    return ms.TuneContext(
        mod=first.dispatched[0], target=target, space_generator="post-order-apply", search_strategy="evolutionary"
    )


def test_a_product_with_a_vector_has_one_that_a_record_holds() -> None:
    import tvm_ffi
    from tvm import s_tir
    from tvm.s_tir import meta_schedule as ms
    from tvm.target import Target

    from tuning.engines.meta_schedule.spaces.candidates import default_candidate

    context = context_of("mlp")
    found = default_candidate(context, Target(H100))
    assert found is not None
    workload = ms.database.Workload(context.mod)
    text = ms.database.TuningRecord(found.sch.trace, workload, [1e-6], context.target, found.args_info).as_json()
    again = ms.database.TuningRecord.from_json(json.loads(json.dumps(text, default=str)), workload)
    schedule = s_tir.Schedule(context.mod)
    again.trace.apply_to_schedule(schedule, remove_postproc=False)
    assert tvm_ffi.structural_equal(schedule.mod, found.sch.mod)
    assert 'thread="threadIdx.x"' in schedule.mod.script()


def test_a_convolution_has_none() -> None:
    """TVM makes it a product of matrices by changing its layout, for which a record has no words."""
    from tvm.target import Target

    from tuning.engines.meta_schedule.spaces.candidates import default_candidate

    assert default_candidate(context_of("conv2d"), Target(H100)) is None


@pytest.mark.parametrize("rules", ["extended", "tvm"])
def test_tasks_of_a_run_begin_with_them(tmp_path: Path, rules: str) -> None:
    gpu = tmp_path / "run" / "gpu"  # Engines read nothing outside of their runs' folders.
    gpu.mkdir(parents=True)
    env = {**os.environ, **gpu_stand_in.install(gpu)}
    gpu_stand_in.plan(gpu, "fine")
    given = options(schedule_rules=rules, first_trials=2, trials_per_batch=2, confirm=0)
    asked = start(tmp_path / "run", target=H100, network=NetworkSpec("mlp"), trials_budget=6, options=given)
    with Engine(asked, tmp_path / "console", COLD, env) as engine:
        assert isinstance(engine.to_the_end(), Finished), (tmp_path / "console").read_text()[-3000:]
    assert [trial.error for trial in engine.trials] == [None] * 6
    console = (tmp_path / "console").read_text()
    assert ("2 of 2 tasks begin with TVM's default schedule." in console) == (rules == "extended")
    tiled = ["SamplePerfectTile" in str(line) for line in lines(tmp_path / "run")]
    assert tiled.count(False) == (2 if rules == "extended" else 0), "default schedules have nothing to decide"
    resumed = msgspec.structs.replace(asked, trials_budget=7, trials_done=6)
    with Engine(resumed, tmp_path / "resumed", COLD, env) as engine:
        assert isinstance(engine.to_the_end(), Finished), (tmp_path / "resumed").read_text()[-3000:]
    assert "tasks begin with TVM's default schedule" not in (tmp_path / "resumed").read_text()
