"""From a network to its tuning tasks."""

from __future__ import annotations

from typing import Any

from tvm import IRModule, relax
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.analysis import estimate_tir_flops
from tvm.target import Target

from .protocol import TaskInfo, TensorInfo


def legalized(mod: IRModule, target: Target) -> IRModule:
    """Operators as fused TensorIR functions: the very module to which records must be applied later."""
    with target:
        return relax.get_pipeline("zero")(mod)


def extract(mod: IRModule, target: Target) -> list[Any]:
    """The distinct tasks of a legalized module, in the network's order.

    A task's name is that of a function of the module, hence unique. Functions that come scheduled are left out.
    """
    tasks = [task for task in ms.relax_integration.extract_tasks(mod, target) if not _is_scheduled(task.mod)]
    # TVM's own order is that of a hash map, which nothing promises to keep.
    place = {name: nth for nth, name in reversed(list(enumerate(_called(mod["main"]))))}
    return sorted(tasks, key=lambda task: (place.get(task.task_name, len(place)), task.task_name))


def describe(index: int, task: Any, *, chosen: bool = True) -> TaskInfo:
    """What the supervisor keeps of an extracted task."""
    mod = task.dispatched[0]
    return TaskInfo(
        index=index,
        name=str(task.task_name),
        weight=int(task.weight),
        flop=float(estimate_tir_flops(mod)),
        workload_hash=ms.utils.shash2hex(mod),
        args=_arguments(mod),
        tensorir=str(mod.script()),
        chosen=chosen,
    )


def _called(main: Any) -> list[str]:
    """Names of the functions that the network calls, in its order."""
    calls = (binding.value for block in main.body.blocks for binding in block.bindings)
    return [call.args[0].name_hint for call in calls if isinstance(call, relax.Call) and len(call.args) > 1]


def _is_scheduled(mod: IRModule) -> bool:
    return bool(mod.attrs and mod.attrs.get("tirx.is_scheduled", False))


def _arguments(mod: IRModule) -> list[TensorInfo]:
    infos = [info.as_json() for info in ms.arg_info.ArgInfo.from_entry_func(mod, remove_preproc=True)]
    names = [str(param.name) for param in mod["main"].params]
    return [
        TensorInfo(name, [int(extent) for extent in shape], str(dtype))
        for name, (_, dtype, shape) in zip(names, infos, strict=True)
    ]
