"""The network of a run in Relay: one of `relay.testing`, or an uploaded ONNX file."""

import importlib
from typing import Any, Dict, Tuple

from .loading import in_one_line
from .pipes import Message
from .refusing import Refused

Built = Tuple[Any, Dict[str, Any]]
"""An IRModule whose `main` is the network, and its parameters."""


def build(start: Message) -> Built:
    """Raises `Refused`."""
    network = start["network"]
    try:
        return _relay(start["relay"]) if start["relay"] else _file(network["file"])
    except Exception as error:
        raise Refused("{}: {}".format(network["name"], in_one_line(error)), "network") from error


def _relay(spec: Message) -> Built:
    module = importlib.import_module("tvm.relay.testing." + spec["module"])
    given = {"batch_size": spec["batch"], "image_shape": tuple(spec["shape"]), "dtype": spec["dtype"]}
    given["num_classes"] = spec["classes"]
    for argument, name in (("layout", "layout"), ("num_layers", "depth"), ("version", "version")):
        if spec[name] is not None:
            given[argument] = spec[name]
    mod, params = module.get_workload(**given)
    return mod, params


def _file(file: Message) -> Built:
    return from_onnx(importlib.import_module("onnx").load(file["path"]), file["dims"])


def from_onnx(model: Any, dims: Dict[str, int]) -> Built:
    """A model of ONNX. Raises whatever onnx or TVM raises."""
    relay = importlib.import_module("tvm.relay")
    shapes = _shapes(model, dims)
    try:
        mod, _ = relay.frontend.from_onnx(model, shape=shapes, freeze_params=True)
    except AttributeError:  # TVM 0.8 asks for the name of Gemm's bias, which only a variable has.
        mod, params = relay.frontend.from_onnx(model, shape=shapes)
        mod["main"] = relay.build_module.bind_params_by_name(mod["main"], params)
    return relay.transform.DynamicToStatic()(mod), {}


def _shapes(model: Any, dims: Dict[str, int]) -> Dict[str, Tuple[int, ...]]:
    """The shape of each input, with the values that were given for the dimensions that the file leaves open."""
    weights = {weight.name for weight in model.graph.initializer}
    shapes = {}
    for given in model.graph.input:
        if given.name not in weights:
            axes = given.type.tensor_type.shape.dim
            shapes[given.name] = tuple(dims.get(axis.dim_param, axis.dim_value) for axis in axes)
    return shapes
