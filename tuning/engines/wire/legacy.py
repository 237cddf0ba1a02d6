"""auto_scheduler and AutoTVM, which run under an interpreter of their own with an older TVM. No TVM here.

Such an engine is started as `PYTHON -m tuning.engines.old_tvm.<engine> --events-fd FD`. Events and controls are those of
`protocol`, but for the first control, a `LegacyStart`. It has no msgspec there, so it reads and writes plain JSON. Null stands for
what it can't know: a task's `flop` that TVM can't count, an error text.

Line n of `RECORDS` in the run's work directory is the n-th trial, in the engine's own format, failed trials included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union

import msgspec
from msgspec import Meta

from .catalog import Batch, Family
from .options import KEEP_BEST
from .options.legacy import LegacyOptions
from .protocol import NetworkSpec, Remote
from .question import Step

LegacyEngine = Literal["auto_scheduler", "autotvm"]
RECORDS = "records.json"
"""The record file in a run's work directory."""

Source = Annotated[
    Literal["relay.testing"],
    Meta(
        title="Definition",
        description="As tvm.relay.testing builds it, with random weights. MetaSchedule's network of the same name has other layers.",
    ),
]
DType = Annotated[Literal["float32", "float16"], Meta(title="Data type", description="Of inputs, weights and sums.")]
_ORDER = "Order of an image's axes. AutoTVM has templates for convolutions in NCHW only, if the target is a CPU."


class RelayMlpOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    batch: Batch = 1
    dtype: DType = "float32"
    source: Source = "relay.testing"


class RelayImageOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    batch: Batch = 1
    layout: Annotated[Literal["NCHW", "NHWC"], Meta(title="Data layout", description=_ORDER)] = "NCHW"
    dtype: DType = "float32"
    source: Source = "relay.testing"


class RelayFixedLayoutOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    batch: Batch = 1
    layout: Annotated[
        Literal["NCHW"], Meta(title="Data layout", description="relay.testing has this network in NCHW only.")
    ] = "NCHW"
    dtype: DType = "float32"
    source: Source = "relay.testing"


class RelayVideoOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    batch: Batch = 1
    layout: Annotated[
        Literal["NCDHW", "NDHWC"],
        Meta(title="Data layout", description="Order of a clip's axes; D counts its frames."),
    ] = "NCDHW"
    dtype: DType = "float32"
    source: Source = "relay.testing"


@dataclass(frozen=True)
class RelayNetwork:
    """A network that the old interpreter builds with `tvm.relay.testing`.

    `shape` is an image's or a clip's, without the batch and with the channels first; a network in another layout takes its
    axes in that order. `module` is the one of `relay.testing`, `depth` its `num_layers` if it has several.
    """

    name: str
    title: str
    description: str
    options: type[msgspec.Struct]
    family: Family
    module: str
    shape: tuple[int, ...]
    classes: int
    depth: int | None = None


def _relay_resnet(depth: int) -> RelayNetwork:
    about = "Images of 224 × 224 × 3 to 1000 classes."
    return RelayNetwork(
        f"resnet-{depth}",
        f"ResNet-{depth}",
        about,
        RelayImageOptions,
        "Image classification",
        "resnet",
        (3, 224, 224),
        1000,
        depth,
    )


def _relay_resnet3d(depth: int) -> RelayNetwork:
    about = "Clips of 16 × 112 × 112 × 3 to 400 classes."
    return RelayNetwork(
        f"resnet3d-{depth}",
        f"ResNet3D-{depth}",
        about,
        RelayVideoOptions,
        "Video",
        "resnet_3d",
        (3, 16, 112, 112),
        400,
        depth,
    )


def _relay_image(name: str, title: str, module: str, options: type[msgspec.Struct], size: int) -> RelayNetwork:
    about = f"Images of {size} × {size} × 3 to 1000 classes."
    return RelayNetwork(name, title, about, options, "Image classification", module, (3, size, size), 1000)


_RELAY = (
    RelayNetwork(
        "mlp",
        "MLP 784-128-64-10",
        "Three dense layers for handwritten digits. Tunes in a minute.",
        RelayMlpOptions,
        "Small",
        "mlp",
        (1, 28, 28),
        10,
    ),
    *(_relay_resnet(depth) for depth in (18, 34, 50, 101, 152)),
    _relay_image("mobilenet", "MobileNet v1", "mobilenet", RelayImageOptions, 224),
    _relay_image("squeezenet_v1.1", "SqueezeNet 1.1", "squeezenet", RelayFixedLayoutOptions, 224),
    _relay_image("inception_v3", "Inception v3", "inception_v3", RelayFixedLayoutOptions, 299),
    *(_relay_resnet3d(depth) for depth in (18, 34, 50)),
)
RELAY: dict[str, RelayNetwork] = {network.name: network for network in _RELAY}


class RelaySpec(msgspec.Struct, frozen=True):
    """How the old interpreter builds a network of `relay.testing`; see `RelayNetwork`."""

    module: str
    batch: int
    shape: list[int]
    """Of the input without the batch, in the order of `layout`."""
    layout: str | None
    """None: the network has no layout argument."""
    dtype: str
    classes: int
    depth: int | None = None
    """`num_layers`."""
    version: str | None = None
    """Of SqueezeNet."""


def relay_spec(network: NetworkSpec) -> RelaySpec:
    """Raises `KeyError` for an unknown network and `msgspec.ValidationError` for invalid options."""
    known = RELAY[network.name]
    options: Any = msgspec.convert(dict(network.options), known.options)
    layout = getattr(options, "layout", None)
    takes_layout = known.options in (RelayImageOptions, RelayVideoOptions)
    return RelaySpec(
        module=known.module,
        batch=options.batch,
        shape=_ordered(known.shape, layout),
        layout=layout if takes_layout else None,
        dtype=options.dtype,
        classes=known.classes,
        depth=known.depth,
        version="1.1" if known.module == "squeezenet" else None,
    )


def _ordered(shape: tuple[int, ...], layout: str | None) -> list[int]:
    """TVM takes a shape with the channels first for a layout with the channels last, and builds nonsense."""
    channels, *others = shape
    return [*others, channels] if layout and layout.endswith("C") else list(shape)


class LegacyStart(msgspec.Struct, tag="start", frozen=True):
    """The first control: what to tune, and how much of it is done. Fields without a comment are those of `protocol.Start`."""

    engine: str
    run_id: int
    network: NetworkSpec
    """An uploaded ONNX file, or a network of `RELAY`, of which `relay` says more."""
    relay: RelaySpec | None
    target: dict[str, Any]
    """As `tvm.target.Target` takes it, host included; the device is the target's, `cpu` or `cuda:0`, unless there is a `remote`."""
    options: LegacyOptions
    trials_budget: int
    trials_done: int
    elapsed_s: float
    work_dir: str
    """Has `RECORDS`, which may be ahead of `trials_done`, and may end with a torn line."""
    keep_best: int = KEEP_BEST
    time_limit_s: float | None = None
    expect_warm_start: bool = False
    remote: Remote | None = None
    scratch: str | None = None


SIMULATORS = ("sim", "tsim")
"""Values of VTA's TARGET, and the beginnings of its MODEL, for its functional and its cycle-accurate simulator."""


class Vta(msgspec.Struct, frozen=True):
    """A VTA build that the interpreter can import. Names in capitals are of `vta.get_env()`."""

    target: str
    """TARGET: `sim`, `tsim` or a board."""
    model: str
    """MODEL: TARGET and the configuration of the hardware."""
    host: str = "llvm"
    """`target_host`, the target of the code around VTA's, as older TVMs write it."""
    trouble: str | None = None
    """Why its simulator doesn't work here."""
    bitstream: str | None = None
    """The file name of the board's own bitstream, which VTA's cache needn't have."""
    bitstreams: list[str] = []
    """File names of the bitstreams that VTA's cache has for this board."""

    @property
    def simulates(self) -> bool:
        """Whether it is a simulator of this machine, rather than for a board."""
        return self.target in SIMULATORS


class Probed(msgspec.Struct, tag="probed", frozen=True):
    """What `python -m tuning.engines.old_tvm.probe` finds in its interpreter: its last line on stdout.

    Before it come `question.Step`s, each flushed before the step is tried, so that the last one names what crashed or hung.
    Where a value is a reason, null means that nothing is missing.
    """

    tvm: str
    versions: dict[str, str]
    """As in `Hello.versions`."""
    engines: dict[LegacyEngine, str | None]
    """By engine, why it can't be used."""
    tuners: list[str]
    """Those of `AutoTvmOptions.tuner` that work."""
    xgboost: str | None
    """Why cost models and tuners that learn by XGBoost don't work."""
    relay_testing: str | None
    """Why the networks of `RELAY` can't be built."""
    onnx: str | None
    """Why uploaded ONNX files can't be read."""
    targets: dict[str, str | None]
    """By kind, such as llvm and cuda, why a function that was built for it didn't run on this machine."""
    cpu: dict[str, Any] | None
    """The least target that builds and runs on this machine's CPU: a bare llvm, or one with its mtriple."""
    rpc: bool
    vta: Vta | None
    no_vta: str | None = None
    """Why there is no VTA build."""


ProbeEvent = Union[Step, Probed]
