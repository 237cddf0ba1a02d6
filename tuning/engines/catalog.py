"""The built-in networks and their options: what form, API and shell offer. No TVM here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Batch = Annotated[int, Meta(ge=1, le=1024, title="Batch", description="Inputs computed at a time.")]


class MlpOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of `mlp`."""

    batch: Batch = 1


class MatmulOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of `matmul`."""

    n: Annotated[int, Meta(ge=1, le=8192, title="Size n", description="Both matrices are n × n.")] = 128
    dtype: Annotated[Literal["float32"], Meta(title="Data type", description="Of the matrices' elements.")] = "float32"


class ResnetOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of `resnet-18`."""

    batch: Batch = 1
    layout: Annotated[
        Literal["NHWC"], Meta(title="Data layout", description="Order of an image's axes; kernels are HWIO then.")
    ] = "NHWC"
    dtype: Annotated[Literal["float32"], Meta(title="Data type", description="Of images and weights.")] = "float32"


@dataclass(frozen=True)
class BuiltinNetwork:
    """A network that Tuneboard makes itself, with weights drawn from a fixed seed."""

    name: str
    title: str
    description: str
    options: type[msgspec.Struct]


_NETWORKS = (
    BuiltinNetwork(
        "mlp",
        "MLP 784-128-10",
        "Two dense layers with a ReLU between, the classic for handwritten digits: tuned in a minute.",
        MlpOptions,
    ),
    BuiltinNetwork("matmul", "Matrix product", "One n × n matrix product: the smallest thing to tune.", MatmulOptions),
    BuiltinNetwork(
        "resnet-18",
        "ResNet-18",
        "Image classification, 224 × 224 × 3 to 1000 classes, batch norms folded: about 20 tasks.",
        ResnetOptions,
    ),
)
BUILTIN: dict[str, BuiltinNetwork] = {network.name: network for network in _NETWORKS}


def options_of(name: str, given: dict[str, Any]) -> msgspec.Struct:
    """Checked options with defaults filled in.

    Raises `KeyError` for an unknown network and `msgspec.ValidationError` for options that it doesn't take.
    """
    return msgspec.convert(given, BUILTIN[name].options)
