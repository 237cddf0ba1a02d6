"""Extracts the tuning tasks of a network."""

from __future__ import annotations

from typing import Any

from tvm import IRModule, relax
from tvm.ir import GenericConst, Op
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.analysis import estimate_tir_flops
from tvm.target import Target

from tuning.engines.wire.protocol import TaskInfo, TensorInfo

CALL_TIR = Op.get("relax.call_tir")
FREE_LAYOUTS = "layout_free_buffers"
"""The attribute in which TVM keeps which of a function's arguments are constants that schedules may lay out anew."""


def legalized(mod: IRModule, target: Target) -> IRModule:
    """Lower operators to fused TensorIR functions. Records must be applied to this very module later."""
    with target:
        legalized = relax.get_pipeline("zero")(mod)
    # TVM packs weights for CPUs only.
    return _with_free_layouts(legalized) if str(target.kind.name) == "llvm" else legalized


def extract(mod: IRModule, target: Target) -> list[Any]:
    """The distinct tasks of a legalized module, in the network's order.

    Each is named after a function of the module, so names are unique. Functions that are already scheduled are left out.
    """
    tasks = [task for task in ms.relax_integration.extract_tasks(mod, target) if not _is_scheduled(task.mod)]
    # TVM's own order is that of a hash map, which may change.
    position = {name: nth for nth, name in reversed(list(enumerate(_called(mod["main"]))))}
    return sorted(tasks, key=lambda task: (position.get(task.task_name, len(position)), task.task_name))


def workload_hash(task: Any) -> str:
    """MetaSchedule's structural hash of an extracted task's function."""
    return str(ms.utils.shash2hex(task.dispatched[0]))


def describe(
    index: int, task: Any, *, chosen: bool = True, computes: str | None = None, cold_bytes: int | None = None
) -> TaskInfo:
    """What the supervisor is told about an extracted task. One that `computes` what another does is no part of the estimate at first."""
    mod = task.dispatched[0]
    return TaskInfo(
        index=index,
        name=str(task.task_name),
        weight=0 if computes else int(task.weight),
        flop=float(estimate_tir_flops(mod)),
        workload_hash=workload_hash(task),
        args=_arguments(mod),
        tensorir=str(mod.script()),
        chosen=chosen,
        computes=computes,
        cold_bytes=cold_bytes,
    )


def _with_free_layouts(mod: IRModule) -> IRModule:
    """Let schedules choose the memory layout of constants, which are then packed once, when the network is compiled.

    After 320 trials on 2 cores ResNet-18 took 19 ms with this and 26 ms without. The functions equal those of TVM's own
    `AttachAttrLayoutFreeBuffers`, so TVM's pipelines find the records, but that pass would also rename the functions.
    """
    free: dict[Any, set[int]] = {}
    for call in calls(mod["main"]):
        constants = {nth for nth, arg in enumerate(call.args[1]) if isinstance(arg, GenericConst)}
        free[call.args[0]] = constants & free.get(call.args[0], constants)
    marked = {name: mod[name].with_attr(FREE_LAYOUTS, sorted(nths)) for name, nths in free.items()}
    return IRModule({**mod.functions, **marked}, attrs=mod.attrs, global_infos=mod.global_infos)


def _called(main: Any) -> list[str]:
    """Names of the functions that the network calls, in order."""
    return [call.args[0].name_hint for call in calls(main)]


def calls(main: Any) -> list[Any]:
    """The network's calls to TensorIR functions, in order."""
    values = (binding.value for block in main.body.blocks for binding in block.bindings)
    return [value for value in values if isinstance(value, relax.Call) and value.op == CALL_TIR]


def _is_scheduled(mod: IRModule) -> bool:
    return bool(mod.attrs and mod.attrs.get("tirx.is_scheduled", False))


def _arguments(mod: IRModule) -> list[TensorInfo]:
    infos = [info.as_json() for info in ms.arg_info.ArgInfo.from_entry_func(mod, remove_preproc=True)]
    names = [str(param.name) for param in mod["main"].params]
    return [
        TensorInfo(name, [int(extent) for extent in shape], str(dtype))
        for name, (_, dtype, shape) in zip(names, infos, strict=True)
    ]
