"""What the processes that build and prove libraries are asked, and what they answer (see `limited`).

`tuning.engines.oneshot.compiling` answers a `Build` with `Phase`s and one `Built`, `tuning.engines.oneshot.proving` a `Prove` with `Phase`s and one
`Proven`. Seconds everywhere, bytes for sizes.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from .protocol import NetworkSpec, Remote, TensorInfo
from .question import Question

PhaseName = Literal["loading", "building", "linking", "verifying", "benchmarking"]
Side = Literal["tuned", "untuned", "onnxruntime"]
"""What a benchmark measures in turn."""
LIBRARY, UNTUNED, MANIFEST = "library.so", "untuned.so", "manifest.json"
"""Names of files in the folder of a compilation; the second is there to be compared with, the others to be taken away."""


class CompileOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to compile."""

    source: Annotated[
        Literal["run", "library"],
        Meta(
            title="Records",
            description="run: the best of this run. library: the best that any run has of the same workload for the same target.",
        ),
    ] = "run"


class BestRecord(msgspec.Struct, frozen=True):
    """A record to compile with."""

    run: int
    trial: int
    """Its number in that run."""
    latency_s: float
    text: str
    """As in `TrialMeasured.record`."""


class Build(Question, frozen=True, kw_only=True):
    """Build and link the network, with the records and without any, into `folder`."""

    network: NetworkSpec
    target: dict[str, Any]
    records: list[BestRecord]
    folder: str
    """Absolute; made by who asks, empty."""
    remote: bool
    """Whether the device is elsewhere, so that it need only be built here."""
    about: dict[str, Any] = {}
    """What else the manifest is to say."""


class Prove(Question, frozen=True, kw_only=True):
    """Compare and benchmark what was built, as loaded from its files."""

    network: NetworkSpec
    target: dict[str, Any]
    folder: str
    """Absolute; has the three files."""
    seed: int
    """Of the random inputs."""
    benchmark_s: float
    """Time for all rounds."""
    remote: Remote | None = None


class Phase(msgspec.Struct, tag="phase", frozen=True):
    """What goes on from now on; `progress` from 0 to 1 where it can be told."""

    name: PhaseName
    progress: float | None = None


class Used(msgspec.Struct, frozen=True):
    """The record that a function of the network was scheduled by."""

    function: str
    run: int
    trial: int
    latency_s: float


class Built(msgspec.Struct, tag="built", frozen=True):
    """The files are complete in the folder."""

    versions: dict[str, str]
    used: list[Used]
    untuned: list[str]
    """Functions that no record was applied to."""
    inputs: list[TensorInfo]
    outputs: list[TensorInfo]
    size: int
    sha256: str
    """Both of the library."""


class Tolerance(msgspec.Struct, frozen=True):
    """An output is right when no number of it differs by more than this part of its largest absolute value."""

    dtype: str
    relative: float


class Proven(msgspec.Struct, tag="proven", frozen=True):
    """How the tuned library's outputs differ from the untuned one's, and the seconds of one inference in each round."""

    verified: bool
    max_abs_error: float | None
    """None when one has numbers where the other has none."""
    max_rel_error: float | None
    """Largest difference by the largest absolute value of the untuned output."""
    tolerance: Tolerance
    rounds: dict[Side, list[float]]
    onnxruntime: str | None
    """Its version, where it was measured."""
    without_onnxruntime: str | None
    """Why it wasn't."""
