"""The built-in networks and their options, as the form, the API and the command line offer them. No TVM here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Batch = Annotated[int, Meta(ge=1, le=1024, title="Batch", description="How many inputs are computed at a time.")]
DType = Annotated[
    Literal["float32", "float16"],
    Meta(
        title="Data type",
        description="Of inputs, weights and sums. float16 is fast if the target has instructions for it.",
    ),
]
Layout = Annotated[
    Literal["NHWC", "NCHW"],
    Meta(title="Data layout", description="Order of an image's axes. Kernels are HWIO or OIHW accordingly."),
]
Family = Literal["Small", "Image classification", "Video"]
"""The group that a form lists a network in."""


class MlpOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    batch: Batch = 1
    dtype: DType = "float32"


class MatmulOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    n: Annotated[int, Meta(ge=1, le=8192, title="Size n", description="Both matrices are n × n.")] = 128
    dtype: DType = "float32"


class Conv2dOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    batch: Batch = 1
    size: Annotated[int, Meta(ge=1, le=1024, title="Image size", description="Height and width.")] = 56
    channels: Annotated[
        int, Meta(ge=1, le=4096, title="Channels", description="Channels of the input, and of the output.")
    ] = 64
    layout: Layout = "NHWC"
    dtype: DType = "float32"


class ImageOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    batch: Batch = 1
    layout: Layout = "NHWC"
    dtype: DType = "float32"


class VideoOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    batch: Batch = 1
    layout: Annotated[
        Literal["NDHWC", "NCDHW"],
        Meta(
            title="Data layout",
            description="Order of a clip's axes; D counts its frames. Kernels are DHWIO or OIDHW accordingly.",
        ),
    ] = "NDHWC"
    dtype: DType = "float32"


@dataclass(frozen=True)
class BuiltinNetwork:
    """A network that Tuneboard builds itself, with weights drawn from a fixed seed."""

    name: str
    title: str
    description: str
    options: type[msgspec.Struct]
    family: Family


def _image(name: str, title: str, description: str) -> BuiltinNetwork:
    return BuiltinNetwork(name, title, description, ImageOptions, "Image classification")


def _resnet(depth: int, block: str) -> BuiltinNetwork:
    return _image(f"resnet-{depth}", f"ResNet-{depth}", f"224 × 224 × 3 to 1000 classes, {block}, batch norms folded.")


def _resnet3d(depth: int, block: str) -> BuiltinNetwork:
    description = f"Clips of 16 × 112 × 112 × 3 to 400 classes, {block}, batch norms folded."
    return BuiltinNetwork(f"resnet3d-{depth}", f"ResNet3D-{depth}", description, VideoOptions, "Video")


_NETWORKS = (
    BuiltinNetwork(
        "mlp",
        "MLP 784-128-10",
        "Two dense layers with a ReLU in between, the classic for handwritten digits. Tunes in a minute.",
        MlpOptions,
        "Small",
    ),
    BuiltinNetwork(
        "matmul",
        "Matrix product",
        "One product of two n × n matrices, the smallest thing to tune.",
        MatmulOptions,
        "Small",
    ),
    BuiltinNetwork(
        "conv2d",
        "Convolution",
        "One 3 × 3 convolution with a bias, the kind of layer where image networks spend most of their time.",
        Conv2dOptions,
        "Small",
    ),
    *(_resnet(depth, "basic blocks") for depth in (18, 34)),
    *(_resnet(depth, "bottleneck blocks") for depth in (50, 101, 152)),
    _image("mobilenet", "MobileNet v1", "224 × 224 × 3 to 1000 classes, depthwise convolutions, batch norms folded."),
    _image("squeezenet_v1.1", "SqueezeNet 1.1", "224 × 224 × 3 to 1000 classes, fire modules, no batch norms."),
    _image("inception_v3", "Inception v3", "299 × 299 × 3 to 1000 classes, parallel branches, batch norms folded."),
    *(_resnet3d(depth, "basic blocks") for depth in (18, 34)),
    _resnet3d(50, "bottleneck blocks"),
)
BUILTIN: dict[str, BuiltinNetwork] = {network.name: network for network in _NETWORKS}


def options_of(name: str, given: dict[str, Any]) -> msgspec.Struct:
    """Validate a network's options and fill in the defaults.

    Raises `KeyError` for an unknown network and `msgspec.ValidationError` for invalid options.
    """
    return msgspec.convert(given, BUILTIN[name].options)
