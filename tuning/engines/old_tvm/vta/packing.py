"""A network's convolutions as VTA computes them: quantized, packed, and extracted as tasks."""

import importlib
from typing import Any, List, Tuple

from tuning.engines.old_tvm.loading import in_one_line
from tuning.engines.old_tvm.networks import Built
from tuning.engines.old_tvm.pipes import Message
from tuning.engines.old_tvm.refusing import Refused

TEMPLATE = "conv2d_packed.vta"
SHIFT = 8
"""Bits by which the 32-bit sums are scaled down before they are narrowed, as in VTA's tutorial."""
LARGEST = 127


def packed_tasks(start: Message, built: Built, target: Any) -> Tuple[Any, List[Any]]:
    """The network as packed for VTA, and AutoTVM's tasks of its packed convolutions. Raises `Refused`."""
    from tvm import autotvm, relay

    mod = _packed(start, built)
    _register_template()
    ops = (relay.op.get("nn.conv2d"),)
    tasks = autotvm.task.extract_from_program(mod, params=built[1], target=target, ops=ops)
    found = [task for task in tasks if task.name == TEMPLATE]
    if not found:
        between = "{vta_start} and {vta_stop}".format(**start["options"])
        raise Refused(f"The network has no convolution that VTA packs between {between}.", "network")
    return mod, found


def _packed(start: Message, built: Built) -> Any:
    import tvm
    from tvm import relay

    vta, graph_pack = importlib.import_module("vta"), importlib.import_module("vta.top").graph_pack
    env, options, (mod, params) = vta.get_env(), start["options"], built
    if env.BLOCK_IN != env.BLOCK_OUT:
        raise Refused(
            f"Packing needs a VTA whose blocks are square: this build's are {env.BLOCK_IN} × {env.BLOCK_OUT}.", "target"
        )
    try:
        # Level 3 folds batch norms; the first convolution has too few channels for VTA and stays on the CPU.
        with tvm.transform.PassContext(opt_level=3), relay.quantize.qconfig(global_scale=8.0, skip_conv_layers=[0]):
            mod = relay.quantize.quantize(mod, params=params)
        program = graph_pack(
            mod["main"],
            env.BATCH,
            env.BLOCK_OUT,
            env.WGT_WIDTH,
            start_name=options["vta_start"],
            stop_name=options["vta_stop"],
        )
    except Exception as error:
        name = start["network"]["name"]
        raise Refused(f"{name} can't be packed for VTA: {in_one_line(error)}", "network") from error
    return tvm.IRModule.from_expr(program)


def _register_template() -> None:
    """VTA schedules a convolution together with what follows it in a quantized network, so that is the task."""
    from tvm import autotvm
    from tvm.autotvm.task import TaskExtractEnv

    TaskExtractEnv()  # Importing it registers TOPI's own templates first.
    autotvm.template(TEMPLATE, conv2d_packed)


def conv2d_packed(*args: Any) -> Any:
    """Schedule and arguments of the task. AutoTVM's build workers find this function by name."""
    import tvm
    from tvm import topi

    top = importlib.import_module("vta.top")
    with tvm.target.vta():
        sums = top.conv2d_packed(*args)
        scaled = topi.right_shift(sums, SHIFT)
        capped = _stage("capped", scaled, tvm.te.min, LARGEST)  # VTA's ALU takes one operation a stage.
        clipped = _stage("clipped", capped, tvm.te.max, 0)
        narrow = topi.cast(clipped, "int8")
    return top.schedule_conv2d_packed([narrow]), [*args[:2], narrow]


def _stage(name: str, tensor: Any, operation: Any, limit: int) -> Any:
    import tvm
    from tvm.topi import tag

    constant = tvm.tir.const(limit, tensor.dtype)
    return tvm.te.compute(tensor.shape, lambda *index: operation(tensor(*index), constant), name=name, tag=tag.ELEMWISE)
