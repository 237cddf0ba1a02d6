"""What the three tuners pass to their callbacks, with TVM's names and arguments."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple


class MeasureResult(NamedTuple):
    """AutoTVM's."""

    costs: Any
    error_no: int
    all_cost: float
    timestamp: float


class MeasureInput(NamedTuple):
    """AutoTVM's."""

    target: str
    task: Any
    config: Any


@dataclass
class AutoTVMTask:
    name: str = "dense_nopack.x86"
    args: Any = (("TENSOR", (1, 128), "float32"), ("TENSOR", (64, 128), "float32"), None, "float32")
    kwargs: Any = field(default_factory=dict)
    target: str = "llvm -keys=cpu"
    flop: int = 16384


class FloatImm(NamedTuple):
    """A number of TVM's own."""

    value: float


def autotvm_batch(task: AutoTVMTask, count: int = 2, first: int = 0) -> tuple[Any, list[MeasureInput], list[Any]]:
    """Arguments of `f(tuner, inputs, results)`; every third trial fails."""
    inputs = [MeasureInput(task.target, task, SimpleNamespace(index=first + i)) for i in range(count)]
    results = [
        MeasureResult(("Traceback …", RuntimeError("no such device")), 4, 0.5, 1e9 + number)
        if number % 3 == 2
        else MeasureResult((1e-3, 3e-3), 0, 0.5, 1e9 + number)
        for number in range(first, first + count)
    ]
    return SimpleNamespace(task=task), inputs, results


def auto_scheduler_batch(count: int = 2) -> tuple[Any, list[Any], list[Any]]:
    """Arguments of `callback(policy, inputs, results)`. Each batch has new objects for the same task."""
    task = SimpleNamespace(
        workload_key='["a1b2", [1, 128], [64, 128]]',
        target="cuda -arch=sm_80",
        desc="vm_mod_fused_nn_dense",
        compute_dag=SimpleNamespace(flop_ct=16384.0),
    )
    inputs = [SimpleNamespace(task=task, state=index) for index in range(count)]
    good = {"error_no": 0, "error_msg": "", "costs": [FloatImm(2e-3)], "timestamp": FloatImm(1e9)}
    bad = {"error_no": 2, "error_msg": "nvcc: no", "costs": [FloatImm(1e10)], "timestamp": FloatImm(1e9)}
    return "policy", inputs, [SimpleNamespace(**(bad if index % 3 == 2 else good)) for index in range(count)]


class TuningRecord:
    def __init__(self, trace: Any, workload: Any, run_secs: Any, target: Any, args_info: Any) -> None:
        self.parts = [trace, run_secs, {"kind": str(target)}, args_info]

    def as_json(self) -> Any:
        return self.parts


class Workload:
    def __init__(self, mod: Any) -> None:
        self.mod = mod

    def as_json(self) -> Any:
        return [f"{len(self.mod)}", "AAAA"]


def meta_schedule_batch(count: int = 2) -> tuple[Any, int, list[Any], list[Any], list[Any]]:
    """Arguments of `apply(task_scheduler, task_id, measure_candidates, builder_results, runner_results)`, as TVM 0.16 has them."""
    context = SimpleNamespace(task_name="fused_dense", target="llvm", mod="module")
    other = SimpleNamespace(task_name="softmax", target="llvm", mod="another module")
    tasks = [
        SimpleNamespace(ctx=other, task_weight=1, flop=0.0),
        SimpleNamespace(ctx=context, task_weight=3, flop=16384.0),
    ]
    candidates = [SimpleNamespace(sch=SimpleNamespace(trace=[[], []]), args_info=[]) for _ in range(count)]
    builds = [SimpleNamespace(error_msg="no such intrinsic" if i % 3 == 2 else None) for i in range(count)]
    runs = [SimpleNamespace(run_secs=[FloatImm(2e-3)], error_msg=None) for _ in range(count)]
    return SimpleNamespace(tasks_=tasks), 1, candidates, builds, runs
