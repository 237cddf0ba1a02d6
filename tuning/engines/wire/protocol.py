"""The messages between an engine process and its supervisor: JSON lines of tagged msgspec structs.

Events leave the engine on a pipe of their own, because TVM, LLVM and compilers print to stdout and stderr, which
become the run's console log. Controls reach the engine on its stdin: one `Start` first, then any number of others.
When stdin closes, the supervisor is gone and the engine exits.

An engine is started as `python -m tuning.engines.<engine> --events-fd FD` in its own session (process group). It
exits with status 0 after `Finished` and 1 after `Failed`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Union

import msgspec
from msgspec import Meta

from .options import KEEP_BEST
from .options.meta_schedule import Options
from .tracker import Address

VERSION = 6

ARTIFACTS = "artifacts"
"""Folder in a run's work directory that holds candidates between build and measurement."""
READY = b"ready"
"""Sent by a warm parent that has loaded and can fork engines."""
FinishReason = Literal["budget", "stopped", "exhausted", "time_limit", "plateau"]
"""`exhausted`: no candidates are left to try. `plateau`: every task is on a plateau, as the run's options define it."""
ErrorKind = Literal[
    "build",
    "build_timeout",
    "run",
    "run_timeout",
    "instantiation",
    "wrong_answer",
    "unknown",
    "not_recorded",
    "no_latency",
]
"""The first four are those of Tuneboard's own engine; others' logs have more."""
PhaseName = Literal[
    "loading", "extracting", "roofline", "design_spaces", "searching", "building", "measuring", "confirming"
]


Seconds = Annotated[float, Meta(ge=0, le=1e9)]
"""JSON has neither infinity nor NaN."""
Index = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
Count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
"""What the database's columns hold."""


class Hello(msgspec.Struct, tag="hello", frozen=True):
    """The first event. A supervisor of another protocol version ends the engine."""

    version: int
    engine: str
    pid: int
    versions: dict[str, str]
    """Versions by package name of what affects the result: apache-tvm, apache-tvm-ffi, xgboost, python."""


class Phase(msgspec.Struct, tag="phase", frozen=True):
    """What the engine does from now on. Shown to users until the first trial is measured."""

    name: PhaseName
    task: int | None = None


class TensorInfo(msgspec.Struct, frozen=True):
    """One argument of a task's function. The output comes last."""

    name: str
    shape: list[int]
    dtype: str


class AnyTaskInfo(msgspec.Struct, frozen=True):
    """One extracted task, as far as its engine can describe it. `index` counts from 0."""

    index: Index
    name: str
    weight: Index | None
    """Number of occurrences in the network; 0 for a task that is no part of the estimate, since another one computes the same."""
    flop: float | None
    """Floating-point operations of one execution; 0 when the task has none."""
    workload_hash: str
    """Identifies the workload, the same for equal functions of different runs: MetaSchedule's structural hash, or a digest."""
    args: list[TensorInfo]
    tensorir: str | None
    """The unscheduled function as TVMScript."""
    chosen: bool = True
    """Whether the run tunes this task (`Options.tasks`)."""
    space: Count | None = None
    """How many candidates its design space has, if the engine can count them, as AutoTVM can."""
    computes: str | None = None
    """The workload hash of the network's task that this one computes by another algorithm; None for the network's own."""
    cold_bytes: Count | None = None
    """How many bytes an inference touches between two uses of the task's weights, these among them, if trials are measured with weights as cold as there.
    None if they aren't, and if that isn't recorded: then it is that of `TasksExtracted`."""


class TaskInfo(AnyTaskInfo, frozen=True):
    """One task that MetaSchedule extracted, of which nothing is missing."""

    weight: Index
    flop: float
    tensorir: str


class TasksExtracted(msgspec.Struct, tag="tasks", frozen=True):
    """All tasks of the run. Each process sends it once, before its first trial; a resumed run must have the same list."""

    target: dict[str, Any]
    """The resolved target, so never `this`."""
    tasks: Sequence[AnyTaskInfo]
    cold_bytes: Count | None = None
    """How many bytes an inference touches: the network's weights, each once, and its functions' results. 0 if trials are measured with weights in the caches,
    None if not recorded."""


class TrialMeasured(msgspec.Struct, tag="trial", frozen=True):
    """A trial ended: it was measured, or it failed to build or run. Sent as soon as that is known.

    The n-th trial event of a run is the n-th line of the engine's record file, so a run can be resumed from the file
    even if its last events were never read.
    """

    task: Index
    latency_s: Seconds | None
    """Mean of `run_secs`; None for a failed trial."""
    at_s: Seconds | None
    """Seconds of tuning since the run began, including those of earlier processes (`Start.elapsed_s`); None if nobody recorded them."""
    error_kind: ErrorKind | None = None
    error: str | None = None
    """The full error text of a failed trial."""
    record: str | None = None
    """The record in the engine's serial form, if the trial is among its task's best k in this process."""
    short: bool = False
    """True if the trial lost the race against its task's best, and so was measured in a few short laps only."""
    recovered: bool = False
    """True if read back from the record file: an earlier process measured it, but died before the supervisor knew."""
    sent_at: float | None = None
    """The machine's monotonic clock in seconds as the event was sent; None for a recovered trial."""
    machine: str | None = None
    """Which machine of the run's pool measured it; None without a pool, and for a recovered trial."""


class ReferenceMeasured(msgspec.Struct, tag="reference", frozen=True):
    """The run's reference was measured again, as `Start.reference` asks. It isn't a trial, and isn't in the record file."""

    trial: Index
    """Whose record it is."""
    latency_s: Seconds
    at_s: Seconds
    """As in `TrialMeasured`."""


class Confirmed(msgspec.Struct, tag="confirmed", frozen=True):
    """The best records of a task were measured again, in turn, after the last trial. None of that is in the record file."""

    task: Index
    trials: list[int]
    """Whose records they are."""
    latencies_s: list[list[Seconds]]
    """What each was measured to be, equally often."""

    def __post_init__(self) -> None:
        if len(self.trials) != len(self.latencies_s) or not self.trials or not all(self.latencies_s):
            raise ValueError("A confirmed task has trials, and latencies of each.")


class RooflineMeasured(msgspec.Struct, tag="roofline", frozen=True):
    """What this machine's CPU does at best with code for the run's target. Sent before the first trial, if `Start.rooflines` asks for it."""

    flops: float
    """Floating-point operations per second, of float32."""
    bandwidths: list[tuple[int, float]]
    """Bytes per second of all threads together, by the size of their working set in bytes, ascending."""
    threads: int
    took_s: Seconds

    def __post_init__(self) -> None:
        sizes = [size for size, _ in self.bandwidths]
        rates = [self.flops, *(rate for _, rate in self.bandwidths)]
        if not sizes or sizes[0] < 1 or sizes != sorted(set(sizes)):
            raise ValueError("A roofline has bandwidths of ascending sizes.")
        if not all(0 < rate < math.inf for rate in rates) or self.threads < 1:
            raise ValueError("A roofline's rates are finite and above 0, and it has threads.")


class Candidate(msgspec.Struct, tag="candidate", frozen=True):
    """A candidate for a machine of the run's pool to build and measure. Sent only if `Start.pool` is given."""

    id: str
    """Of this candidate alone, among those of all processes of all runs."""
    task: Index
    module: bytes
    """The scheduled module as TVM's JSON (`tvm.ir.save_json`), compressed with Zstandard."""
    args_info: list[tuple[str, str, list[int]]]
    """For each argument: `TENSOR`, or `WEIGHTS` of a constant of the network; data type and shape. The output comes last."""
    limit_s: Seconds | None = None
    """The latency above which it loses its race and is measured briefly only; None: no race."""
    again: bool = False
    """It is the run's reference, and no trial."""
    cold_bytes: Count | None = None
    """As in `AnyTaskInfo`; None: that of `PoolStart`."""


class Begun(msgspec.Struct, frozen=True):
    """The known record that is measured as the next trial of a task."""

    task: Index
    run: int
    """Whose record it is."""
    latency_s: Seconds
    """What it has there."""


class WarmStarted(msgspec.Struct, tag="warm_started", frozen=True):
    """The search starts from records of earlier runs, for these tasks."""

    tasks: list[int]
    runs: list[int]
    """The runs that the records come from."""
    begun: list[Begun] = []
    """Those that are measured again first, as far as the engine tells."""


class Adapted(msgspec.Struct, tag="adapted", frozen=True):
    """These tasks begin with the schedules of similar ones, adapted to their shapes."""

    tasks: list[int]
    runs: list[int]
    """The runs that the schedules come from."""


class Plateaued(msgspec.Struct, tag="plateaued", frozen=True):
    """The task has reached its plateau, as the run's options define it. Its remaining trials go to other tasks."""

    task: Index


class Preferred(msgspec.Struct, tag="preferred", frozen=True):
    """Of two tasks that compute the same by different algorithms, this one is faster, so it has the weight of both in the estimate."""

    task: Index
    instead_of: Index


class Round(msgspec.Struct, tag="round", frozen=True):
    """A round is over: a batch of one task was searched for, built and measured. Sent once all of its trials have ended.

    Rounds divide the process's time without gaps, and what remains of one is overhead. What was done meanwhile, by background threads or
    the machines of a pool, is counted `beside`; it adds up over devices, so it may exceed the round.
    """

    task: Index | None
    """None: the time before the process's first round, or in which the best records of all tasks are confirmed."""
    done: Index
    """Trials of the run that had ended when it began."""
    candidates: Index
    began_s: Seconds
    """Seconds of tuning since the run began, as in `TrialMeasured.at_s`."""
    ended_s: Seconds
    search_s: Seconds = 0.0
    """Seconds of it in which the search's thread generated candidates; likewise below."""
    learn_s: Seconds = 0.0
    build_s: Seconds = 0.0
    measure_s: Seconds = 0.0
    again_s: Seconds = 0.0
    """In which records were measured again, and built for that: the reference, and those that are confirmed."""
    wait_s: Seconds = 0.0
    """For builds and devices in the background, or for the machines of a pool."""
    beside_build_s: Seconds = 0.0
    beside_measure_s: Seconds = 0.0


class Ranked(msgspec.Struct, tag="ranked", frozen=True):
    """What the cost model said of measured candidates of a task, just before it learned from them."""

    task: Index
    done: Index
    """Trials of the run that have ended."""
    at_s: Seconds
    correlation: float | None
    """Spearman's rank correlation of scores and speeds, from -1 to 1; None if either are all equal."""
    scores: list[float]
    """Predicted; higher is better."""
    latencies_s: list[Seconds]
    """Measured."""


class Finished(msgspec.Struct, tag="finished", frozen=True):
    """The last event of an engine that did what it was asked to."""

    reason: FinishReason


class Failed(msgspec.Struct, tag="failed", frozen=True):
    """The last event of an engine that can't continue. `field` names the option at fault, if there is one."""

    error: str
    field: str | None = None


Event = Union[
    Hello,
    Phase,
    TasksExtracted,
    WarmStarted,
    Adapted,
    Candidate,
    TrialMeasured,
    ReferenceMeasured,
    RooflineMeasured,
    Plateaued,
    Preferred,
    Round,
    Ranked,
    Confirmed,
    Finished,
    Failed,
]


class ModelFile(msgspec.Struct, frozen=True):
    """The file of an uploaded model."""

    format: Literal["onnx", "irmodule"]
    """`irmodule`: TVM's JSON of a Relax module (`tvm.ir.save_json`)."""
    path: str
    """Absolute."""
    dims: dict[str, Annotated[int, Meta(ge=1)]] = {}
    """Values by name for the dimensions that the file leaves open."""


class NetworkSpec(msgspec.Struct, frozen=True):
    """A built-in network with its options (`catalog.BUILTIN`), or an uploaded model under the name its user chose."""

    name: str
    options: dict[str, int | str] = {}
    file: ModelFile | None = None

    def paths(self) -> tuple[str, ...]:
        """The files that it is read from."""
        return (self.file.path,) if self.file else ()


class Remote(msgspec.Struct, frozen=True):
    """Devices that measure instead of this machine: those with one key at a TVM RPC tracker."""

    tracker: Address
    key: str
    patience_s: float = 60.0
    """The run fails if no device is available for this long."""

    def __str__(self) -> str:
        return f"{self.key} at {self.tracker}"


class Pool(msgspec.Struct, frozen=True):
    """Machines that build and measure the run's candidates. The engine itself then only searches."""

    slots: Annotated[int, Meta(ge=0)]
    """How many candidates they want at once; `Slots` changes it. Batches are sized by what is given here."""
    look_ahead: Annotated[float, Meta(ge=1, le=100)] = 1.25
    """How many times as many are kept out, so that machines don't wait for the search."""
    synthetic: bool = False
    """Whether they are fake devices. Only a run that says so accepts their answers, and it accepts no others."""


class Reference(msgspec.Struct, frozen=True):
    """That one record of the run is measured again every so often, between trials, and reported as `ReferenceMeasured`.

    In a pool, it is handed out as a `Candidate`.
    """

    trial: int | None = None
    """Whose record an earlier process has measured; None: that of the first good trial."""
    every_s: Annotated[float, Meta(ge=0)] = 20.0
    most_share: Annotated[float, Meta(gt=0, le=1)] = 0.02
    """Of the time: if measuring it takes longer, it is measured more rarely."""


class Start(msgspec.Struct, tag="start", frozen=True):
    """The first control: what to tune, and how much of it is done."""

    run_id: int
    network: NetworkSpec
    target: dict[str, Any] | str
    """`this`, a target tag, or a target as a dict."""
    options: Options
    trials_budget: int
    trials_done: int
    """Trials in the database. What is left of the budget is `trials_budget - trials_done`."""
    elapsed_s: float
    """Seconds that earlier processes of this run spent tuning."""
    work_dir: str
    """Absolute. Holds the engine's record files, which earlier processes of the run may have started."""
    keep_best: int = KEEP_BEST
    time_limit_s: float | None = None
    """The run ends after this many seconds of tuning, including those of earlier processes."""
    expect_warm_start: bool = False
    """Whether the engine waits for a `WarmStart` after it sent `TasksExtracted`."""
    remote: Remote | None = None
    """Where to measure; None means on this machine."""
    scratch: str | None = None
    """An empty folder for temporary files, which the supervisor removes. Its path is short: there are Unix sockets in it."""
    pool: Pool | None = None
    """Where to measure, in place of this process; None means here, or on the `remote` devices."""
    reference: Reference | None = None
    """None: no record is measured again. Only what measures on this machine itself can do it."""
    rooflines: list[dict[str, Any]] | None = None
    """Resolved targets whose roofline on this machine is known: for any other CPU target it is measured first. None: it isn't measured."""
    continued: int | None = None
    """The run whose trials the search begins with. Its record files are in the folder `continued` of `work_dir`."""


class Stop(msgspec.Struct, tag="stop", frozen=True):
    """Stop soon: finish no more than the trial being measured, then send `Finished("stopped")`."""


class Extend(msgspec.Struct, tag="extend", frozen=True):
    """The run's new budget and time limit, both as totals, not as differences."""

    trials_budget: int
    time_limit_s: float | None


class Hold(msgspec.Struct, tag="hold", frozen=True):
    """`held`: begin no new measurement, since nobody knows whose the run is; otherwise go on."""

    held: bool


class KnownRecord(msgspec.Struct, frozen=True):
    """A record of an earlier run for one of this run's workloads and for its target."""

    task: int
    run: int
    text: str
    """As in `TrialMeasured.record`."""
    latency_s: float | None = None
    """What it promises: the confirmed latency, if there is one; None: that in its text."""
    is_measured: bool = True
    """Whether this site measured it. The latency of another one is a claim: it is only measured, and nothing is learned from it before."""


class WarmStart(msgspec.Struct, tag="warm_start", frozen=True):
    """The answer to `TasksExtracted`: records of earlier runs to start from, each task's fastest first."""

    records: list[KnownRecord]
    similar: list[KnownRecord] = []
    """Records of other workloads, whose schedules are to be adapted to the task, each task's most similar first."""


class Measured(msgspec.Struct, tag="measured", frozen=True, kw_only=True):
    """What became of a `Candidate`: it has `run_secs`, or `error_kind` and `error`.

    A second answer for the same candidate is ignored, and so are answers for candidates that this process never sent.
    """

    id: str
    machine: str
    """The name of the machine that answers."""
    run_secs: list[float] = []
    """Seconds per execution, for each repeat; for each lap if the measurement was `short`."""
    short: bool = False
    """As in `TrialMeasured`."""
    error_kind: ErrorKind | None = None
    error: str | None = None
    build_s: float | None = None
    """How long the machine built it; None if that isn't known."""
    measure_s: float | None = None
    """How long the machine then measured it; None if it wasn't built."""
    synthetic: bool = False
    """True if a fake device made the numbers up."""

    def __post_init__(self) -> None:
        if (self.error_kind is None) != (self.error is None) or (self.error_kind is None) != bool(self.run_secs):
            raise ValueError("A measured candidate has either run_secs, or an error and its kind.")
        if not all(0 <= seconds < math.inf for seconds in self.run_secs):
            raise ValueError("run_secs must be finite numbers that aren't negative.")


class Slots(msgspec.Struct, tag="slots", frozen=True):
    """How many candidates the machines of the pool want at once from now on. With 0, the search pauses."""

    wanted: Annotated[int, Meta(ge=0)]


Control = Union[Start, Stop, Extend, Hold, WarmStart, Measured, Slots]

_encoder = msgspec.json.Encoder()
_events = msgspec.json.Decoder(Event)
_controls = msgspec.json.Decoder(Control)


def encode(message: msgspec.Struct) -> bytes:
    """The message as one line, including its newline."""
    return _encoder.encode(message) + b"\n"


def decode_event(line: bytes) -> Event:
    """Raises `msgspec.MsgspecError` if the line isn't an event."""
    event: Event = _decoded(_events, line)
    return event


def decode_control(line: bytes) -> Control:
    """Raises `msgspec.MsgspecError` if the line isn't a control."""
    control: Control = _decoded(_controls, line)
    return control


def _decoded(decoder: msgspec.json.Decoder[Any], line: bytes) -> Any:
    try:
        return decoder.decode(line)
    except (UnicodeDecodeError, RecursionError) as error:  # What msgspec raises for them isn't an error of its own.
        raise msgspec.DecodeError(str(error)) from error
