"""Networks as Relax modules, with weights bound and with batch norms and constants folded.

The weights of built-in networks are drawn from a fixed seed, so two builds of a network are equal and have the same
tasks. Apart from rounding, they are the same numbers in every layout and data type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tvm import IRModule, relax
from tvm.target import Target

from tuning.engines.targets.dot_products import Instruction
from tuning.engines.wire.catalog import Conv2dOptions, ImageOptions, MatmulOptions, MlpOptions, VideoOptions, options_of
from tuning.engines.wire.options.rewrites import Rewrites
from tuning.engines.wire.protocol import NetworkSpec

from . import inception, mobilenet, resnet, small, squeezenet
from .layers import Layers

if TYPE_CHECKING:
    from .quantized.rewriting import Report

Body = Callable[..., Any]
"""Builds a network from layers and inputs, and returns the output. Tests pass layers that compute in NumPy."""

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
"""Frames per video clip."""


@dataclass(frozen=True)
class Network:
    """A network ready to be legalized. Its only arguments are its inputs."""

    mod: IRModule
    parameters: int
    """Trained parameters of the network as published, before batch norms are folded."""
    operators: dict[str, int] | None = None
    """How often each operator occurs in the file of an uploaded model."""
    quantized: Report | None = None
    """What of an uploaded model is computed in integers."""

    @property
    def is_uploaded(self) -> bool:
        return self.operators is not None

    @property
    def computes_in_integers(self) -> bool:
        return self.quantized is not None and bool(self.quantized.integers)


def build(spec: NetworkSpec, *, image: int | None = None, instruction: Instruction | None = None) -> Network:
    """Build a network. `image` replaces the published height and width of a built-in network's images.

    With an instruction, what is quantized in an uploaded model is computed in integers by it.

    Raises `Refused` for an uploaded model, and what `catalog.options_of` raises for a built-in network.
    """
    if spec.file is not None:
        from tuning.engines.networks import uploaded  # Late: it loads onnx, 10 MB that warm parents needn't keep.

        model = uploaded.build(spec.file, instruction)
        return Network(model.mod, model.parameters, model.operators, model.quantized)
    options: Any = options_of(spec.name, dict(spec.options))
    layers = Layers(options.dtype, getattr(options, "layout", "NHWC"))
    inputs = [_tensor(name, shape, options.dtype) for name, shape in shapes(spec.name, options, image).items()]
    with layers.bb.function("main", inputs):
        with layers.bb.dataflow():
            output = layers.bb.emit_output(BODIES[spec.name](layers, *inputs))
        layers.bb.emit_func_output(output)
    return Network(layers.bb.get(), layers.weights.parameters)


def as_tuned(network: Network, target: Target, rewrites: Rewrites) -> IRModule:
    """The network with convolutions and matrices as a run tunes them with these rewrites; those of a quantized one have their layout already."""
    from tuning.engines.targets.registers import registers

    from .columns import rewriting as columns
    from .filters import rewriting as filters
    from .transposed import rewriting as transposed

    mod = network.mod
    may_change = network.is_uploaded and not network.computes_in_integers and str(target.kind.name) == "llvm"
    if may_change and rewrites.as_extrema:
        from .uploaded import activations

        mod = activations.as_extrema(mod)
    if may_change and rewrites.channels_last:
        from .uploaded import layouts

        mod = layouts.with_channels_last(
            mod, lambda call: rewrites.by_phase and transposed.transposed(call) is not None
        )
    if rewrites.by_phase:
        mod = transposed.by_phase(mod)
    known = registers(target)
    if known and rewrites.whole_columns:
        mod = columns.in_whole_vectors(mod, known)
    if known and rewrites.whole_filters:
        mod = filters.in_whole_vectors(mod, known)
    return mod


def to_onnx(spec: NetworkSpec, *, image: int | None = None) -> bytes:
    """A built-in network as an ONNX file with the same weights, in float32 and channels first whatever its options."""
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
    """The shapes of a network's inputs by name, in the layout from the options."""
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
