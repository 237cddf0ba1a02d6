"""Runs a network in ONNX Runtime, with the same weights and inputs as a library, on the same number of cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tuning.engines.wire.protocol import NetworkSpec

from .judging import Given

Inference = Callable[[], list[Any]]
"""Runs one inference and returns the outputs, in the network's own layout. It is measured, so it does nothing else: `in_words` is for its errors."""


class Unavailable(Exception):
    """ONNX Runtime can't run the network; the text says why."""


def version() -> str:
    """The version of ONNX Runtime, which must be installed."""
    import onnxruntime as runtime

    return str(runtime.__version__)


def onnxruntime(network: NetworkSpec, threads: int) -> Callable[[Given], Inference]:
    """The network, opened once, for any inputs of its shapes. Raises `Unavailable`, as what it returns does for other inputs."""
    try:
        import onnxruntime as runtime
    except ImportError:
        raise Unavailable("ONNX Runtime isn't installed.") from None
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    with in_words():
        return (_uploaded if network.file is not None else _builtin)(runtime, network, options)


@contextmanager
def in_words() -> Iterator[None]:
    """Raises `Unavailable` for whatever ONNX Runtime raises, which says nothing about the library."""
    try:
        yield
    except Unavailable:
        raise
    except Exception as error:
        reason = str(error).strip().partition("\n")[0][:300]  # It puts its message first.
        raise Unavailable(f"ONNX Runtime can't run it: {reason or 'no reason given'}") from error


def _uploaded(runtime: Any, network: NetworkSpec, options: Any) -> Callable[[Given], Inference]:
    """The uploaded file, with the chosen values for open dimensions."""
    assert network.file is not None
    if network.file.format != "onnx":
        raise Unavailable("A Relax module has no ONNX form.")
    for name, value in network.file.dims.items():
        options.add_free_dimension_override_by_name(name, value)
    session = _session(runtime, network.file.path, options)
    names = [one.name for one in session.get_inputs()]

    def on(inputs: Given) -> Inference:
        if len(names) != len(inputs):
            raise Unavailable(f"ONNX Runtime takes {len(names)} inputs, and the network {len(inputs)}.")
        given = dict(zip(names, inputs.values(), strict=True))
        return lambda: session.run(None, given)

    return on


def _builtin(runtime: Any, network: NetworkSpec, options: Any) -> Callable[[Given], Inference]:
    import numpy as np

    from tuning.engines.networks import to_onnx

    if network.options.get("dtype", "float32") != "float32":
        raise Unavailable("Built-in networks have an ONNX form in float32 only.")
    session = _session(runtime, to_onnx(network), options)
    first = str(network.options.get("layout", "NHWC")).index("C") == 1

    def on(inputs: Given) -> Inference:
        given = {
            name: array if array.ndim < 4 or first else np.ascontiguousarray(np.moveaxis(array, -1, 1))
            for name, array in inputs.items()
        }

        def run() -> list[Any]:
            (output,) = session.run(None, given)
            # Networks such as conv2d output an image, whose channels go back to where the network has them.
            return [np.moveaxis(output, 1, -1) if output.ndim > 3 and not first else output]

        return run

    return on


def _session(runtime: Any, model: str | bytes, options: Any) -> Any:
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
