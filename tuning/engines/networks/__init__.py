"""Networks as Relax modules: weights bound, batch norms folded, constants folded.

Weights of the built-in ones are drawn from a fixed seed, so that two builds of a network are equal and give the same tasks. They are the
same numbers in every layout and, but for rounding, in every data type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from tvm import IRModule, relax

from tuning.engines.wire.catalog import Conv2dOptions, ImageOptions, MatmulOptions, MlpOptions, VideoOptions, options_of
from tuning.engines.wire.protocol import NetworkSpec

from . import inception, mobilenet, resnet, small, squeezenet
from .layers import Layers

Body = Callable[..., Any]
"""Takes the layers and the inputs, gives the output: all in one vocabulary, so that tests can speak it in NumPy."""

BODIES: dict[str, Body] = {
    "mlp": small.mlp,
    "matmul": small.matmul,
    "conv2d": small.conv2d,
    "mobilenet": mobilenet.mobilenet,
    "squeezenet_v1.1": squeezenet.squeezenet,
    "inception_v3": inception.inception,
    **{f"resnet-{depth}": partial(resnet.resnet, depth=depth) for depth in resnet.UNITS},
    **{f"resnet3d-{depth}": partial(resnet.resnet3d, depth=depth) for depth in (18, 34, 50)},
}
FRAMES = 16
"""Length of a video clip."""


@dataclass(frozen=True)
class Network:
    """A network ready for the legalising pipeline; its only arguments are its inputs."""

    mod: IRModule
    parameters: int
    """Trained numbers of the network as it is published, before batch norms are folded."""
    operators: dict[str, int] | None = None
    """How often each operator of the file occurs, of one's own model."""


def build(spec: NetworkSpec, *, image: int | None = None) -> Network:
    """Build a network; `image` is the height and width of a built-in one's images, if not as published.

    Raises as `catalog.options_of`, and `Refused` for one's own model.
    """
    if spec.file is not None:
        from tuning.engines.networks import uploaded  # With onnx: 10 MB that warm parents shouldn't keep for others.

        own = uploaded.build(spec.file)
        return Network(own.mod, own.parameters, own.operators)
    options: Any = options_of(spec.name, dict(spec.options))
    layers = Layers(options.dtype, getattr(options, "layout", "NHWC"))
    inputs = [_tensor(name, shape, options.dtype) for name, shape in shapes(spec.name, options, image).items()]
    with layers.bb.function("main", inputs):
        with layers.bb.dataflow():
            output = layers.bb.emit_output(BODIES[spec.name](layers, *inputs))
        layers.bb.emit_func_output(output)
    return Network(layers.bb.get(), layers.weights.parameters)


def to_onnx(spec: NetworkSpec, *, image: int | None = None) -> bytes:
    """A built-in network as an ONNX file with the same weights: float32, channels first whatever its layout."""
    from .onnx_layers import OnnxLayers, Tensor

    options: Any = options_of(spec.name, dict(spec.options))
    layout = getattr(options, "layout", "")
    layers = OnnxLayers()
    inputs = [
        Tensor(name, (shape[0], shape[-1], *shape[1:-1]) if layout.endswith("C") else shape)
        for name, shape in shapes(spec.name, options, image).items()
    ]
    return layers.model(inputs, BODIES[spec.name](layers, *inputs))


def shapes(name: str, options: Any, image: int | None = None) -> dict[str, tuple[int, ...]]:
    """The shapes of a network's inputs by their names, in the layout that the options ask for."""
    if isinstance(options, MatmulOptions):
        return {"a": (options.n, options.n), "b": (options.n, options.n)}
    if isinstance(options, MlpOptions):
        return {"x": (options.batch, 784)}
    if isinstance(options, Conv2dOptions):
        size, channels = options.size, options.channels
    else:
        assert isinstance(options, (ImageOptions, VideoOptions))
        size, channels = image or _published_size(name), 3
    extents = {"N": options.batch, "C": channels, "D": FRAMES, "H": size, "W": size}
    return {"image": tuple(extents[axis] for axis in options.layout)}


def _published_size(name: str) -> int:
    if name == "inception_v3":
        return 299
    return 112 if name.startswith("resnet3d-") else 224


def _tensor(name: str, shape: tuple[int, ...], dtype: str) -> Any:
    return relax.Var(name, relax.TensorType(shape, dtype))
