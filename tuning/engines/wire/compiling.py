"""Libraries: what the processes that build and prove them are asked, and what they answer.

`tuning.engines.oneshot.compiling` answers `Build` with `Phase`s and one `Built`, `tuning.engines.oneshot.proving` answers `Prove` with
`Phase`s and one `Proven`. For the engines of older TVMs, `tuning.engines.old_tvm.compiling` has both, and answers an `OlderBuild`.
Times are in seconds, sizes in bytes.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from .legacy import LegacyEngine, RelaySpec
from .options.rewrites import Precision, Rewrites
from .protocol import NetworkSpec, Remote, Seconds, TensorInfo
from .question import Question, Reach

PhaseName = Literal["loading", "building", "choosing", "linking", "verifying", "benchmarking"]
Side = Literal["tuned", "untuned", "onnxruntime", "float_model"]
"""What a benchmark measures in turn. ONNX Runtime also runs the last one: the model that a quantized one was made from."""
LIBRARY, UNTUNED, MANIFEST = "library.so", "untuned.so", "manifest.json"
"""File names in the folder of a compilation. The untuned library is there for comparison, the others for download."""

MAIN = "main"
"""The function of a library that runs the network."""


def entry(batch: int | None) -> str:
    """The function for exactly that batch, in a library that takes any; None is the only batch of a library that takes no other."""
    return MAIN if batch is None else f"{MAIN}_{batch}"


Inside = Literal["best", "chosen"]
"""The network with each task's best record, and with the records that were chosen inside of it."""


class CompileOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    source: Annotated[
        Literal["run", "library"],
        Meta(
            title="Records",
            description="run: the best of this run. library: the best of any run for the same workload and target.",
        ),
    ] = "run"
    choose: Annotated[
        Literal["alone", "inside"],
        Meta(
            title="Choice among records",
            description="alone: each task's record with the lowest latency, as its trial was measured. inside: the best few of each task "
            "are measured inside the built network, with its data and its caches, and the fastest there are kept.",
        ),
    ] = "alone"
    batches: Annotated[
        Literal["one", "all"],
        Meta(
            title="Batches",
            description="one: the library takes the run's own batch. all: it takes any batch, and has functions for each batch that "
            "the model was added and tuned for. Others are padded to the next of these, or computed in pieces.",
        ),
    ] = "one"
    imported_records: Annotated[
        Literal["off", "on"],
        Meta(
            title="Imported records",
            description="off: only records that this site measured. on: also those that were imported or streamed, whose latencies this site "
            "hasn't measured. They are measured inside the network first, and replace a record only if they are faster there. With records of the "
            "library, for one batch.",
        ),
    ] = "off"
    cuda_graphs: Annotated[
        Literal["on", "off"],
        Meta(
            title="CUDA graphs",
            description="on: kernels for a CUDA GPU are captured as graphs by the first inference and launched together by all others, except "
            "those that read the network's inputs or write its outputs. off: each kernel is launched by itself. Other targets have none.",
        ),
    ] = "on"


class BestRecord(msgspec.Struct, frozen=True):
    """A record to compile with."""

    run: int
    trial: int
    """The trial's number in that run."""
    latency_s: float
    text: str
    """As in `TrialMeasured.record`."""
    is_measured: bool = True
    """Whether this site measured it; False if a log or a script claims its latency."""


class Choose(msgspec.Struct, frozen=True):
    """What else a network may be built with."""

    alternatives: list[list[BestRecord]]
    """For each of `Build.records`, in their order, more records of its workload, the best first."""
    seconds: float
    """For measuring the records inside the network, and as long again for comparing what was chosen with the best alone."""
    seed: int
    """For the random inputs."""


class OtherBatch(msgspec.Struct, frozen=True):
    """The network for another batch, to be in the same library."""

    batch: int
    network: NetworkSpec
    records: list[BestRecord]


class Build(Question, frozen=True, kw_only=True):
    """Asks to build the network into `folder`, with the records and without any."""

    network: NetworkSpec
    target: dict[str, Any]
    records: list[BestRecord]
    folder: str
    """Absolute path of an empty folder."""
    remote: bool
    """Whether the device isn't this machine's, which then need only build for it."""
    about: dict[str, Any] = {}
    """More content for the manifest."""
    choose: Choose | None = None
    """How to choose among records inside the network; None to build with `records`."""
    rewrites: Rewrites = Rewrites()
    """How the network was tuned. The untuned library computes it as its file says, and what is quantized in floats."""
    cuda_graphs: bool = False
    """Whether kernels are captured as CUDA graphs, in the tuned library: the untuned one launches each by itself."""
    batch: int | None = None
    """The network's, if the library is to take any; None to build it for the network's inputs only."""
    others: list[OtherBatch] = []
    """The networks for other batches, if `batch` is given."""

    def reach(self) -> Reach:
        others = (path for other in self.others for path in other.network.paths())
        return Reach((*self.network.paths(), *others), (self.folder,))


class OlderBuild(Build, frozen=True, kw_only=True):
    """As `Build`, of an older TVM's interpreter, whose library runs on TVM's graph executor."""

    engine: LegacyEngine
    relay: RelaySpec | None
    """As in `LegacyStart`."""
    no_rewrite: bool
    """Whether the layout of weights stays as it is, which is how the records were measured."""
    linker: list[str] | None
    """A command, to be continued by `-shared`; if None, a C++ compiler links."""
    linker_name: str = ""

    def reach(self) -> Reach:
        linker = [str(Path(self.linker[0]).parent)] if self.linker else []
        return Reach((*self.network.paths(), *linker), (self.folder,))


class Prove(Question, frozen=True, kw_only=True):
    """Asks to compare and benchmark the libraries in `folder`."""

    network: NetworkSpec
    target: dict[str, Any]
    folder: str
    """Absolute path of a folder with the three files."""
    seed: int
    """For the random inputs."""
    benchmark_s: float
    """Seconds for all rounds together."""
    remote: Remote | None = None
    precision: Precision = "network"
    """As in `Rewrites`: it decides how far outputs may be apart."""
    batch: int | None = None
    """As in `Build`."""
    others: dict[int, NetworkSpec] = {}
    """The networks for other batches, by batch."""
    float_model: NetworkSpec | None = None
    """An ONNX file that takes the same inputs in the same order and gives as many outputs, to compare with."""

    def reach(self) -> Reach:
        others = [*self.others.values(), *([self.float_model] if self.float_model else [])]
        paths = (path for network in others for path in network.paths())
        return Reach((self.folder, *self.network.paths(), *paths), network=self.remote is not None)


class LookInto(Question, frozen=True, kw_only=True):
    """Asks what built libraries do when they are loaded, and what they need of the process that loads them."""

    paths: list[str]
    by_compiler: bool
    """Whether a C compiler linked them, which adds start files of its own."""

    def reach(self) -> Reach:
        return Reach(tuple(self.paths))


class Needs(msgspec.Struct, tag="needs", frozen=True):
    """The libraries run no code when they are loaded."""

    symbols: list[str]
    """What they need: functions of TVM's runtime and of the C library."""


class Phase(msgspec.Struct, tag="phase", frozen=True):
    """What the process is doing from now on; `progress` from 0 to 1, or None if it isn't known."""

    name: PhaseName
    progress: float | None = None


class Used(msgspec.Struct, frozen=True):
    """The record that was applied to a function of the network."""

    function: str
    run: int
    trial: int
    latency_s: float


class Tried(msgspec.Struct, frozen=True):
    """A record that was measured inside the network."""

    run: int
    trial: int
    latency_s: float
    """As its trial was measured, alone."""
    inside_s: Seconds
    """Of one call inside the network: the median over rounds."""


class Choice(msgspec.Struct, frozen=True):
    """The choice for a function."""

    function: str
    calls: int
    """How often the network calls it."""
    tried: list[Tried]
    """The best record alone comes first."""
    chosen: int
    """Index in `tried`."""


class Chosen(msgspec.Struct, frozen=True):
    """What choosing inside the network led to."""

    functions: list[Choice]
    rounds: dict[Inside, list[Seconds]]
    """Seconds of one inference in each round, of both networks in turn. Empty if the best records were chosen for all functions."""
    kept: bool
    """Whether the library has the chosen records: together, they were faster."""


class Quantized(msgspec.Struct, frozen=True):
    """What the library computes in integers, where the untuned one computes in floats."""

    integers: dict[str, int]
    """Operators by name."""
    steps: list[float | None]
    """For each output, by how much two values differ at least; None where it isn't quantized."""


class BuiltBatch(msgspec.Struct, frozen=True):
    """What the library has for one batch; as in `Built`."""

    batch: int
    used: list[Used]
    untuned: list[str]
    inputs: list[TensorInfo]
    outputs: list[TensorInfo]


class Built(msgspec.Struct, tag="built", frozen=True):
    """The files in the folder are complete."""

    versions: dict[str, str]
    used: list[Used]
    untuned: list[str]
    """Functions that no record was applied to."""
    inputs: list[TensorInfo]
    outputs: list[TensorInfo]
    size: int
    sha256: str
    """Of the library, as is `size`."""
    chosen: Chosen | None = None
    """If it was to be chosen inside the network."""
    cuda_graphs: int | None = None
    """How many the library has, if kernels were to be captured."""
    quantized: Quantized | None = None
    """If something is computed in integers."""
    batches: list[BuiltBatch] = []
    """If the library takes any batch: each that it has functions for, the smallest first."""


class Tolerance(msgspec.Struct, frozen=True):
    """An output is right if no element differs by more than `relative` × the largest absolute value of the output."""

    dtype: str
    relative: float
    steps: int | None = None
    """How many steps of the quantization that is, if the library computes in integers."""


class Part(msgspec.Struct, frozen=True):
    """A function inside the network."""

    function: str
    calls: int
    """How often an inference calls it."""
    inside_s: Seconds
    """Of one call."""


class Profile(msgspec.Struct, frozen=True):
    """Where the time of an inference of the tuned library goes. Medians over inferences."""

    functions: list[Part]
    """In the order of their first calls."""
    machine_s: float
    """What the virtual machine's own calls take in all, such as for memory and tuples."""
    machine_calls: int


class Accuracy(msgspec.Struct, frozen=True):
    """How far the tuned library's outputs are from those of the float model, which ONNX Runtime runs, over some random inputs."""

    samples: int
    """How many inferences were compared."""
    rms_error: float | None
    """Root mean square of the differences, divided by that of the float model's outputs; of the worst output. None if one isn't finite."""
    max_error: float | None
    """The largest difference, divided by the largest absolute value of the float model's output; likewise."""
    rows: int
    """Rows of the first output, if that is a matrix of at least two columns, as scores by class are; else 0."""
    same_largest: int
    """In how many of them the largest value is in the same column."""
    without: str | None = None
    """Why nothing was compared; then all else is 0 or None."""


class ProvenBatch(msgspec.Struct, frozen=True):
    """One batch of a library that takes any; as in `Proven`."""

    batch: int
    max_abs_error: float | None
    max_rel_error: float | None
    rounds: dict[Side, list[Seconds]]
    without_onnxruntime: str | None


class Proven(msgspec.Struct, tag="proven", frozen=True):
    """How far the tuned library's outputs are from the untuned one's, and the seconds of one inference in each round.

    Of a library that takes any batch, errors are those of the batch that is worst, and rounds those of the run's own.
    """

    verified: bool
    max_abs_error: float | None
    """None if one is finite where the other isn't."""
    max_rel_error: float | None
    """The largest difference, divided by the largest absolute value of the untuned output."""
    tolerance: Tolerance
    rounds: dict[Side, list[Seconds]]
    onnxruntime: str | None
    """The version of ONNX Runtime, if it was measured."""
    without_onnxruntime: str | None
    """Why ONNX Runtime wasn't measured."""
    profile: Profile | None = None
    """None on GPUs and remote devices, and by older TVMs."""
    batches: list[ProvenBatch] = []
    """If the library takes any batch: each that it has functions for, the smallest first."""
    accuracy: Accuracy | None = None
    """If there was a float model to compare with, for the run's own batch."""


def zig() -> str | None:
    """The path of the program zig, if the package ziglang is installed. `zig ld.lld` is LLVM's linker."""
    spec = importlib.util.find_spec("ziglang")
    path = Path(spec.origin).with_name("zig") if spec and spec.origin else None
    return str(path) if path and path.exists() else None


CUDA_TOOLKIT = "/usr/local/cuda/bin"
"""Where NVIDIA's installers put the toolkit, often without adding it to the PATH."""


def cuda_tool(name: str) -> str | None:
    """The path of a program of CUDA: on the PATH, in `CUDA_TOOLKIT`, or of NVIDIA's packages for Python, the newest CUDA first."""
    spec = importlib.util.find_spec("nvidia")
    roots = (spec and spec.submodule_search_locations) or ()
    packages = (str(path) for root in roots for path in sorted(Path(root).glob("cu*/bin"), reverse=True))
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join([CUDA_TOOLKIT, *packages]))


def has_nvrtc() -> bool:
    """Whether CUDA's compiler is there as a library, by the package cuda-python."""
    return bool(importlib.util.find_spec("cuda") and importlib.util.find_spec("cuda.bindings"))


def cuda_tools() -> list[str]:
    """Everything that compiles, assembles or disassembles CUDA's code on this machine."""
    found = [cuda_tool(name) for name in ("nvcc", "ptxas", "nvdisasm")]
    return [*filter(None, found), *(["nvrtc"] if has_nvrtc() else [])]
