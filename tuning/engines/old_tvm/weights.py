"""How often each of AutoTVM's tasks occurs in the network. AutoTVM itself doesn't count."""

from collections import Counter
from typing import Any, List, Optional, Tuple

from tvm import relay

TEMPLATES = {
    "conv2d": ("nn.conv2d",),
    "depthwise_conv2d": ("nn.conv2d",),
    "group_conv2d": ("nn.conv2d",),
    "conv2d_transpose": ("nn.conv2d_transpose",),
    "conv1d": ("nn.conv1d",),
    "conv3d": ("nn.conv3d",),
    "dense": ("nn.dense",),
    "batch_matmul": ("nn.batch_matmul",),
}
"""Relay's operators by the beginning of a template's name."""
Layer = Tuple[Any, ...]
"""Operator, shapes of data and weights, strides; empty strides where the operator has none."""


def weights(mod: Any, tasks: List[Any], chosen: Optional[List[int]]) -> List[Optional[int]]:
    """The number of layers of each task; None where that can't be told. All tasks are tuned if `chosen` is None.

    Several templates may suit one layer. TVM compiles the fastest of them, so only the last one that is tuned counts.
    """
    layers = _layers(mod)
    found = [_layer_of(task, layers) for task in tasks]
    tuned_last = sorted(range(len(tasks)), key=lambda index: (index in (chosen or ()), index))
    last = {found[index]: index for index in tuned_last}
    return [_weight(layers, layer, counts=last[layer] == index) for index, layer in enumerate(found)]


def _weight(layers: "Counter[Layer]", layer: Optional[Layer], *, counts: bool) -> Optional[int]:
    if layer is None:
        return None
    return layers[layer] if counts else 0


def _layers(mod: Any) -> "Counter[Layer]":
    found: Counter[Layer] = Counter()

    def visit(expr: Any) -> None:
        if isinstance(expr, relay.Call) and hasattr(expr.op, "name") and len(expr.args) > 1:
            strides = tuple(int(extent) for extent in getattr(expr.attrs, "strides", ()) or ())
            found[(str(expr.op.name), _shape(expr.args[0]), _shape(expr.args[1]), strides)] += 1

    relay.analysis.post_order_visit(relay.transform.InferType()(mod)["main"], visit)
    return found


def _shape(expr: Any) -> Tuple[Any, ...]:
    shape = getattr(expr.checked_type, "shape", ())
    return tuple(int(extent) if hasattr(extent, "value") else str(extent) for extent in shape)


def _layer_of(task: Any, layers: "Counter[Layer]") -> Optional[Layer]:
    """The layer that the task's arguments describe: two tensors, then the strides, if the operator has some."""
    shapes = [tuple(arg[1]) for arg in task.args if isinstance(arg, tuple) and arg and arg[0] == "TENSOR"]
    numbers = [tuple(arg) for arg in task.args if isinstance(arg, tuple) and arg and isinstance(arg[0], int)]
    for operator in _operators(task.name):
        for strides in ((), *numbers[:1]):
            layer = (operator, *shapes[:2], strides)
            if layer in layers:
                return layer
    return None


def _operators(template: str) -> Tuple[str, ...]:
    longest = max((name for name in TEMPLATES if template.startswith(name)), key=len, default="")
    return TEMPLATES.get(longest, ())
