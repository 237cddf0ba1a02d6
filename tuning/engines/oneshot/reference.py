"""Runs a library's network in ONNX Runtime, with the same weights and inputs on the same number of cores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tuning.engines.wire.protocol import NetworkSpec


class Unavailable(Exception):
    """ONNX Runtime can't run the network; the text says why."""


def version() -> str:
    """The version of ONNX Runtime, which must be installed."""
    import onnxruntime as runtime

    return str(runtime.__version__)


def onnxruntime(network: NetworkSpec, inputs: dict[str, Any], threads: int) -> Callable[[], Any]:
    """A function that runs one inference and returns the outputs, in the network's own layout. Raises `Unavailable`."""
    try:
        import onnxruntime as runtime
    except ImportError:
        raise Unavailable("ONNX Runtime isn't installed.") from None
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    if network.file is not None:
        return _uploaded(runtime, network, inputs, options)
    return _builtin(runtime, network, inputs, options)


def _uploaded(runtime: Any, network: NetworkSpec, inputs: dict[str, Any], options: Any) -> Callable[[], Any]:
    """The uploaded file, with the chosen values for open dimensions."""
    assert network.file is not None
    if network.file.format != "onnx":
        raise Unavailable("A Relax module has no ONNX form.")
    for name, value in network.file.dims.items():
        options.add_free_dimension_override_by_name(name, value)
    session = _session(runtime, network.file.path, options)
    names = [one.name for one in session.get_inputs()]
    if len(names) != len(inputs):
        raise Unavailable(f"ONNX Runtime takes {len(names)} inputs, and the network {len(inputs)}.")
    given = dict(zip(names, inputs.values(), strict=True))
    return lambda: session.run(None, given)


def _builtin(runtime: Any, network: NetworkSpec, inputs: dict[str, Any], options: Any) -> Callable[[], Any]:
    import numpy as np

    from tuning.engines.networks import to_onnx

    if network.options.get("dtype", "float32") != "float32":
        raise Unavailable("Built-in networks have an ONNX form in float32 only.")
    session = _session(runtime, to_onnx(network), options)
    first = str(network.options.get("layout", "NHWC")).index("C") == 1
    given = {
        name: array if array.ndim < 4 or first else np.ascontiguousarray(np.moveaxis(array, -1, 1))
        for name, array in inputs.items()
    }

    def run() -> Any:
        (output,) = session.run(None, given)
        # Networks such as conv2d output an image, whose channels go back to where the network has them.
        return np.moveaxis(output, 1, -1) if output.ndim > 3 and not first else output

    return run


def _session(runtime: Any, model: str | bytes, options: Any) -> Any:
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
