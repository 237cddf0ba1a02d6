"""What an engine process and its supervisor say to each other: JSON lines of tagged msgspec structs.

Events travel from the engine on a pipe of their own, since TVM, LLVM and compilers print to stdout and
stderr, which become the run's console log. Controls travel to the engine on its stdin: first one `Start`,
later any number of others. When stdin closes, the supervisor is gone and the engine ends by itself.

An engine is started as `python -m tuning.engines.<engine> --events-fd FD` in its own session (process
group). Its exit status is 0 after `Finished`, 1 after `Failed`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Union

import msgspec
from msgspec import Meta

from .tracker import Address

VERSION = 2

KEEP_BEST = 8
"""Records of each task that the database keeps; the run's whole record log stays in its work directory."""

READY = b"ready"
"""A warm parent has loaded and can be asked for engines."""
FinishReason = Literal["budget", "stopped", "exhausted", "time_limit", "plateau"]
"""`exhausted`: nothing is left to try. `plateau`: no task gains any more, by the run's own options."""
ErrorKind = Literal["build", "build_timeout", "run", "run_timeout"]
PhaseName = Literal["loading", "extracting", "design_spaces", "searching", "building", "measuring"]


class Hello(msgspec.Struct, tag="hello", frozen=True):
    """The first event. A supervisor that knows another version refuses to go on."""

    version: int
    engine: str
    pid: int
    versions: dict[str, str]
    """Package name to version, of what decides the result: apache-tvm, apache-tvm-ffi, xgboost, python."""


class Phase(msgspec.Struct, tag="phase", frozen=True):
    """What the engine does from now on; shown as it is while nothing is measured."""

    name: PhaseName
    task: int | None = None


class TensorInfo(msgspec.Struct, frozen=True):
    """One argument of a task's function: the output stands last."""

    name: str
    shape: list[int]
    dtype: str


class TaskInfo(msgspec.Struct, frozen=True):
    """One extracted task, as the engine numbers it from 0."""

    index: int
    name: str
    weight: int
    """Number of occurrences in the network."""
    flop: float
    """Floating-point operations of one execution; 0 when the task has none."""
    workload_hash: str
    """The workload's structural hash: the same for equal functions of different runs."""
    args: list[TensorInfo]
    tensorir: str
    """The function before any schedule is applied, as TVMScript."""
    chosen: bool = True
    """Whether the run tunes it (`Options.tasks`)."""


class TasksExtracted(msgspec.Struct, tag="tasks", frozen=True):
    """All tasks of the run; sent once a process, before the first trial. On resume it must be the same list."""

    target: dict[str, Any]
    """The target as resolved (`this` is no longer there)."""
    tasks: list[TaskInfo]


class TrialMeasured(msgspec.Struct, tag="trial", frozen=True):
    """One trial ended: measured, or failed while it was built or run. Sent as soon as its measurement ends.

    The n-th trial event of a run is the n-th line of the engine's own record file, so that a run can be
    continued from the file when its last events were never read.
    """

    task: int
    latency_s: float | None
    """Mean of `run_secs`; None when it failed."""
    at_s: float
    """Seconds of tuning since the run began, `Start.elapsed_s` of earlier processes included."""
    error_kind: ErrorKind | None = None
    error: str | None = None
    """The text, whole, when it failed."""
    record: str | None = None
    """The record in the engine's own serial form, of trials among the best k of their task in this process."""
    short: bool = False
    """True when it was clearly slower than its task's best, and therefore measured in short laps only (`race`)."""
    recovered: bool = False
    """True when read back from the record file: it was measured by an earlier process that died before it was recorded."""


class WarmStarted(msgspec.Struct, tag="warm_started", frozen=True):
    """The search begins with what earlier runs measured of the same workloads."""

    tasks: list[int]
    runs: list[int]
    """Those whose records are used."""


class Plateaued(msgspec.Struct, tag="plateaued", frozen=True):
    """The task gains no more, by the run's own options: its trials go to the others."""

    task: int


class Finished(msgspec.Struct, tag="finished", frozen=True):
    """The last event of an engine that did what it was asked."""

    reason: FinishReason


class Failed(msgspec.Struct, tag="failed", frozen=True):
    """The last event of an engine that can't go on; `field` names the option at fault, if one is."""

    error: str
    field: str | None = None


Event = Union[Hello, Phase, TasksExtracted, WarmStarted, TrialMeasured, Plateaued, Finished, Failed]


class ModelFile(msgspec.Struct, frozen=True):
    """A file with a model of one's own."""

    format: Literal["onnx", "irmodule"]
    """`irmodule`: TVM's JSON of a Relax module (`tvm.ir.save_json`)."""
    path: str
    """Absolute."""
    dims: dict[str, Annotated[int, Meta(ge=1)]] = {}
    """Values of the dimensions that the file leaves open, by their names."""


class NetworkSpec(msgspec.Struct, frozen=True):
    """A built-in network and its options (`catalog.BUILTIN`), or one's own model under the name that it was given."""

    name: str
    options: dict[str, int | str] = {}
    file: ModelFile | None = None


TaskIndex = Annotated[int, Meta(ge=0, le=100_000)]


class Remote(msgspec.Struct, frozen=True):
    """Devices of one key at a TVM RPC tracker, which measure in place of this machine's."""

    tracker: Address
    key: str
    patience_s: float = 60.0
    """The run ends when no device could be used for this long."""

    def __str__(self) -> str:
        return f"{self.key} at {self.tracker}"


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to tune. Names are TVM's own; times in seconds unless the name says otherwise.

    The one place of each option's default, bounds and help: form, API, shell and engine read them here.
    """

    trials_per_batch: Annotated[
        int,
        Meta(
            ge=1,
            le=1024,
            title="Trials per batch",
            description="Candidates searched, built and measured at a time (num_trials_per_iter).",
        ),
    ] = 16
    seed: Annotated[
        Annotated[int, Meta(ge=0, le=2**31 - 1)] | None,
        Meta(title="Seed", description="Empty: drawn at launch and stored, so that the run can be repeated."),
    ] = None
    max_trials_per_task: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        Meta(title="Trials per task, at most", description="Empty: only the run's budget counts."),
    ] = None
    tasks: Annotated[
        Annotated[list[TaskIndex], Meta(min_length=1)] | None,
        Meta(
            title="Tasks",
            description="Indices of the tasks to tune, from 0, as 0, 3, 5. The estimate is of these alone. Empty: all.",
        ),
    ] = None
    warm_start: Annotated[
        bool,
        Meta(
            title="Warm start",
            description="Begin with the best records that earlier runs have of the same workloads and target. "
            "Each task's best of them is measured again, as a trial of this run.",
        ),
    ] = True
    strategy: Annotated[
        Literal["evolutionary", "replay-trace", "replay-func"],
        Meta(
            title="Search strategy",
            description="How candidates are searched; replay draws them at random from the design space.",
        ),
    ] = "evolutionary"
    cost_model: Annotated[
        Literal["xgb", "random", "none"],
        Meta(
            title="Cost model",
            description="What ranks candidates before they are measured; only a replay strategy can do with none.",
        ),
    ] = "xgb"
    task_scheduler: Annotated[
        Literal["gradient", "round-robin"],
        Meta(
            title="Task scheduler",
            description="Gradient gives trials to the task that promises the largest gain of the total.",
        ),
    ] = "gradient"
    overlap: Annotated[
        Literal["auto", "on", "off"],
        Meta(
            title="Search while measuring",
            description="Search and build for other tasks while a device measures. Auto: unless this machine's CPU "
            "is measured, which that would disturb.",
        ),
    ] = "auto"
    plateau_trials: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        Meta(
            title="Plateau, trials",
            description="A task gets no more trials when this many in a row gained less than the plateau's percentage; "
            "others get them. When no task is left the run ends. Empty: never.",
        ),
    ] = None
    plateau_percent: Annotated[
        float,
        Meta(gt=0, lt=100, title="Plateau, gain (%)", description="What a task must gain to be worth more trials."),
    ] = 1.0
    number: Annotated[
        int, Meta(ge=1, le=10_000, title="Number", description="Executions averaged into one of a trial's run_secs.")
    ] = 3
    repeat: Annotated[
        int,
        Meta(ge=1, le=1000, title="Repeat", description="How many run_secs one trial has; its latency is their mean."),
    ] = 1
    min_repeat_ms: Annotated[
        int,
        Meta(
            ge=0,
            le=60_000,
            title="Minimum time of a repeat (ms)",
            description="Short functions are executed more often until one repeat takes this long.",
        ),
    ] = 100
    race_margin: Annotated[
        float,
        Meta(
            ge=1.2,
            le=1e6,
            title="Race margin",
            description="A candidate that a short first measurement shows to be slower than its task's best by this factor "
            "isn't measured at full length. Large: every candidate is.",
        ),
    ] = 2.0
    build_timeout_s: Annotated[
        float,
        Meta(gt=0, le=3600, title="Build timeout (s)", description="A candidate that takes longer to build fails."),
    ] = 60.0
    run_timeout_s: Annotated[
        float,
        Meta(gt=0, le=3600, title="Run timeout (s)", description="A candidate that takes longer to measure fails."),
    ] = 30.0
    build_workers: Annotated[
        Annotated[int, Meta(ge=1, le=256)] | None,
        Meta(title="Build workers", description="Candidates built at once. Empty: one for each core."),
    ] = None

    def contradictions(self) -> dict[str, str]:
        """The options at fault and why, where options that are well by themselves make no sense together."""
        if self.strategy == "evolutionary" and self.cost_model == "none":
            return {"cost_model": "The evolutionary search ranks candidates by a cost model: choose one, or a replay."}
        return {}


class Start(msgspec.Struct, tag="start", frozen=True):
    """The first control: what to tune, and what of it is done already."""

    run_id: int
    network: NetworkSpec
    target: dict[str, Any] | str
    """`this`, a tag, or a target's dict."""
    options: Options
    trials_budget: int
    trials_done: int
    """Trials that the database holds. The budget left is `trials_budget` less what is done."""
    elapsed_s: float
    """Seconds of tuning by earlier processes of this run."""
    work_dir: str
    """Absolute; holds the engine's own record files, which earlier processes may have begun."""
    keep_best: int = KEEP_BEST
    time_limit_s: float | None = None
    """Seconds of tuning, those of earlier processes included, after which the run ends."""
    earlier_follow: bool = False
    """Whether `Earlier` answers `TasksExtracted`, so that the engine is to wait for it."""
    remote: Remote | None = None
    """Where to measure; None: on this machine."""


class Stop(msgspec.Struct, tag="stop", frozen=True):
    """End soon: finish at most the trial being measured, then send `Finished("stopped")`."""


class Extend(msgspec.Struct, tag="extend", frozen=True):
    """The run's budget from now on; both values in all, never as a difference."""

    trials_budget: int
    time_limit_s: float | None


class EarlierRecord(msgspec.Struct, frozen=True):
    """A record of an earlier run, of the task's own workload and the run's own target."""

    task: int
    run: int
    text: str
    """As in `TrialMeasured.record`."""


class Earlier(msgspec.Struct, tag="earlier", frozen=True):
    """What earlier runs know of this one's tasks; the fastest record of a task stands first."""

    records: list[EarlierRecord]


Control = Union[Start, Stop, Extend, Earlier]

_encoder = msgspec.json.Encoder()
_events = msgspec.json.Decoder(Event)
_controls = msgspec.json.Decoder(Control)


def encode(message: Event | Control) -> bytes:
    """One line, newline included."""
    return _encoder.encode(message) + b"\n"


def decode_event(line: bytes) -> Event:
    """Raises `msgspec.MsgspecError` when the line is no event."""
    event: Event = _events.decode(line)
    return event


def decode_control(line: bytes) -> Control:
    """Raises `msgspec.MsgspecError` when the line is no control."""
    control: Control = _controls.decode(line)
    return control
