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

from .tracker import Address

VERSION = 6

FIRST_TRIALS, FIRST_SHARE = 4, 0.15
"""Trials of each task in the first pass by default, and at most how much of the budget that takes."""
RIVALS_SHARE = 0.5
"""At most this share of a budget is spent to find out which of two algorithms is faster, and on a first trial of each other task."""

CONFIRM_ROUNDS = 5
"""Measurements of each record that is confirmed: as many as it takes to tell noise."""
CONFIRM_LEAST_S, CONFIRM_SHARE = 30.0, 0.05
"""Confirming takes at most this share of the tuning, but so many seconds are always allowed."""

KEEP_BEST = 8
"""Records of each task that the database keeps; the run's whole record log stays in its work directory."""

ARTIFACTS = "artifacts"
"""Folder in a run's work directory that holds candidates between build and measurement."""
READY = b"ready"
"""Sent by a warm parent that has loaded and can fork engines."""
Precision = Literal["network", "bfloat16"]
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

    index: int
    name: str
    weight: int | None
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
    space: int | None = None
    """How many candidates its design space has, if the engine can count them, as AutoTVM can."""
    computes: str | None = None
    """The workload hash of the network's task that this one computes by another algorithm; None for the network's own."""
    cold_bytes: int | None = None
    """How many bytes an inference touches between two uses of the task's weights, these among them, if trials are measured with weights as cold as there.
    None if they aren't, and if that isn't recorded: then it is that of `TasksExtracted`."""


class TaskInfo(AnyTaskInfo, frozen=True):
    """One task that MetaSchedule extracted, of which nothing is missing."""

    weight: int
    flop: float
    tensorir: str


class TasksExtracted(msgspec.Struct, tag="tasks", frozen=True):
    """All tasks of the run. Each process sends it once, before its first trial; a resumed run must have the same list."""

    target: dict[str, Any]
    """The resolved target, so never `this`."""
    tasks: Sequence[AnyTaskInfo]
    cold_bytes: int | None = None
    """How many bytes an inference touches: the network's weights, each once, and its functions' results. 0 if trials are measured with weights in the caches,
    None if not recorded."""


class TrialMeasured(msgspec.Struct, tag="trial", frozen=True):
    """A trial ended: it was measured, or it failed to build or run. Sent as soon as that is known.

    The n-th trial event of a run is the n-th line of the engine's record file, so a run can be resumed from the file
    even if its last events were never read.
    """

    task: int
    latency_s: float | None
    """Mean of `run_secs`; None for a failed trial."""
    at_s: float | None
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

    trial: int
    """Whose record it is."""
    latency_s: float
    at_s: float
    """As in `TrialMeasured`."""


class Confirmed(msgspec.Struct, tag="confirmed", frozen=True):
    """The best records of a task were measured again, in turn, after the last trial. None of that is in the record file."""

    task: int
    trials: list[int]
    """Whose records they are."""
    latencies_s: list[list[float]]
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
    took_s: float

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
    task: int
    module: bytes
    """The scheduled module as TVM's JSON (`tvm.ir.save_json`), compressed with Zstandard."""
    args_info: list[tuple[str, str, list[int]]]
    """For each argument: `TENSOR`, or `WEIGHTS` of a constant of the network; data type and shape. The output comes last."""
    limit_s: float | None = None
    """The latency above which it loses its race and is measured briefly only; None: no race."""
    again: bool = False
    """It is the run's reference, and no trial."""
    cold_bytes: int | None = None
    """As in `AnyTaskInfo`; None: that of `PoolStart`."""


class Begun(msgspec.Struct, frozen=True):
    """The known record that is measured as the next trial of a task."""

    task: int
    run: int
    """Whose record it is."""
    latency_s: float
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

    task: int


class Preferred(msgspec.Struct, tag="preferred", frozen=True):
    """Of two tasks that compute the same by different algorithms, this one is faster, so it has the weight of both in the estimate."""

    task: int
    instead_of: int


class Round(msgspec.Struct, tag="round", frozen=True):
    """A round is over: a batch of one task was searched for, built and measured. Sent once all of its trials have ended.

    Rounds divide the process's time without gaps, and what remains of one is overhead. What was done meanwhile, by background threads or
    the machines of a pool, is counted `beside`; it adds up over devices, so it may exceed the round.
    """

    task: int | None
    """None: the time before the process's first round, or in which the best records of all tasks are confirmed."""
    done: int
    """Trials of the run that had ended when it began."""
    candidates: int
    began_s: float
    """Seconds of tuning since the run began, as in `TrialMeasured.at_s`."""
    ended_s: float
    search_s: float = 0.0
    """Seconds of it in which the search's thread generated candidates; likewise below."""
    learn_s: float = 0.0
    build_s: float = 0.0
    measure_s: float = 0.0
    again_s: float = 0.0
    """In which records were measured again, and built for that: the reference, and those that are confirmed."""
    wait_s: float = 0.0
    """For builds and devices in the background, or for the machines of a pool."""
    beside_build_s: float = 0.0
    beside_measure_s: float = 0.0


class Ranked(msgspec.Struct, tag="ranked", frozen=True):
    """What the cost model said of measured candidates of a task, just before it learned from them."""

    task: int
    done: int
    """Trials of the run that have ended."""
    at_s: float
    correlation: float | None
    """Spearman's rank correlation of scores and speeds, from -1 to 1; None if either are all equal."""
    scores: list[float]
    """Predicted; higher is better."""
    latencies_s: list[float]
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


TaskIndex = Annotated[int, Meta(ge=0, le=100_000)]


class Remote(msgspec.Struct, frozen=True):
    """Devices that measure instead of this machine: those with one key at a TVM RPC tracker."""

    tracker: Address
    key: str
    patience_s: float = 60.0
    """The run fails if no device is available for this long."""

    def __str__(self) -> str:
        return f"{self.key} at {self.tracker}"


def longest_confirming_s(elapsed_s: float) -> float:
    """For how long a run that was tuned so long may be confirmed."""
    return max(CONFIRM_LEAST_S, elapsed_s * CONFIRM_SHARE)


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to tune. Names are TVM's; times are in seconds unless the name says otherwise.

    Every option's default, bounds and help are defined here only. The form, the API, the command line and the engine
    all read them from this class.
    """

    trials_per_batch: Annotated[
        int,
        Meta(
            ge=1,
            le=1024,
            title="Trials per batch",
            description="How many candidates are searched, built and measured at a time (num_trials_per_iter).",
        ),
    ] = 16
    seed: Annotated[
        Annotated[int, Meta(ge=0, le=2**31 - 1)] | None,
        Meta(title="Seed", description="If empty, a seed is drawn at launch and stored, so the run can be repeated."),
    ] = None
    max_trials_per_task: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        Meta(title="Maximum trials per task", description="If empty, only the run's budget limits them."),
    ] = None
    tasks: Annotated[
        Annotated[list[TaskIndex], Meta(min_length=1)] | None,
        Meta(
            title="Tasks",
            description="Indices of the tasks to tune, counted from 0, such as 0, 3, 5. The estimated latency then covers "
            "only these. If empty, all tasks are tuned.",
        ),
    ] = None
    warm_start: Annotated[
        bool,
        Meta(
            title="Warm start",
            description="Start from the best records of earlier runs for the same workloads and target. "
            "The best one for each task is measured again as a trial of this run.",
        ),
    ] = True
    transfer: Annotated[
        bool,
        Meta(
            title="Learn from similar tasks",
            description="Tasks of which no record is known begin with the best schedules that earlier runs found for the same operators in other "
            "shapes, adapted to theirs, instead of random ones.",
        ),
    ] = True
    neighbours: Annotated[
        bool,
        Meta(
            title="Learn from the run’s other tasks",
            description="A task begins with the fastest schedules that this run has found for similar tasks, adapted to its shapes, and tries "
            "better ones as they are found.",
        ),
    ] = True
    strategy: Annotated[
        Literal["evolutionary", "replay-trace", "replay-func"],
        Meta(
            title="Search strategy",
            description="How candidates are found. The replay strategies draw them at random from the design space.",
        ),
    ] = "evolutionary"
    cost_model: Annotated[
        Literal["xgb", "random", "none"],
        Meta(
            title="Cost model",
            description="Ranks candidates before they are measured. Only the replay strategies work without one.",
        ),
    ] = "xgb"
    first_trials: Annotated[
        Annotated[int, Meta(ge=1, le=1024)] | None,
        Meta(
            title="First trials per task",
            description="Each task gets so many trials before the task scheduler divides the rest, at most a batch and its share "
            f"of the budget. If empty, {FIRST_TRIALS}, or fewer so that this takes {FIRST_SHARE * 100:.0f} % of the budget; a single "
            "task gets a batch.",
        ),
    ] = None
    data_layout: Annotated[
        Literal["channels_last", "as_given"],
        Meta(
            title="Layout of an uploaded network",
            description="Channels last: its convolutions are computed with channels last inside, whatever its file says (ONNX files have them first), "
            "unless that would take many transpositions. Inputs and outputs stay as they are. On CPUs; built-in networks have a layout of their own.",
        ),
    ] = "channels_last"
    activations: Annotated[
        Literal["extrema", "as_given"],
        Meta(
            title="Activations of an uploaded network",
            description="How leaky ReLUs and those with bounds are computed, such as HardSwish. Extrema: by maxima and minima, which need no transposition, so that "
            "YOLO or MobileNetV3 can have channels last inside. As given: by TVM’s own operators, for which it transposes data. On CPUs.",
        ),
    ] = "extrema"
    algorithms: Annotated[
        Literal["direct", "fastest"],
        Meta(
            title="Algorithms",
            description="How convolutions are computed. Fastest: 3 × 3 convolutions are tuned by Winograd’s algorithm, too, which needs "
            "fewer multiplications but rounds a little more, and each layer gets what was measured to be faster. On CPUs, in float32.",
        ),
    ] = "fastest"
    winograd: Annotated[
        Literal["in_parts", "step_by_step"],
        Meta(
            title="Winograd’s algorithm",
            description="How a convolution goes through its three steps. In parts: a few tiles of the image after the others, if that keeps what a "
            "step leaves for the next one in a core’s caches. Step by step: always the whole image.",
        ),
    ] = "in_parts"
    transposed: Annotated[
        Literal["by_phase", "over_zeros"],
        Meta(
            title="Transposed convolutions",
            description="How those with a stride and constant weights are computed. By phase: each output only with the weights that apply to it. Over "
            "zeros: as TVM does, as a convolution of the data with zeros between them, which at a stride of 2 takes four times the multiplications.",
        ),
    ] = "by_phase"
    columns: Annotated[
        Literal["whole_vectors", "as_given"],
        Meta(
            title="Columns of weights",
            description="How many columns matrices of constant weights have. Whole vectors: a few more that are zero, where no vector divides them, as of a "
            "classifier with 1,001 classes. As given: TVM computes such products one column at a time. On x86 and 64-bit ARM CPUs, in float32.",
        ),
    ] = "whole_vectors"
    filters: Annotated[
        Literal["whole_vectors", "as_given"],
        Meta(
            title="Filters of convolutions",
            description="How many filters convolutions with channels last and constant weights have. Whole vectors: a few more that are zero, where no vectors "
            "divide them, as of YOLO’s outputs with 255 channels, or only slower ones do. As given: TVM computes most such convolutions one number at a time. "
            "On x86 and 64-bit ARM CPUs, in float32.",
        ),
    ] = "whole_vectors"
    schedule_rules: Annotated[
        Literal["extended", "tvm"],
        Meta(
            title="Schedule rules",
            description="What the search chooses from. Extended: besides what TVM’s rules give, schedules that sum matrix products and convolutions "
            "in tiles that fill the CPU’s vector registers, that take softmax and normalizations row by row, and that transpose in blocks (on x86 and 64-bit "
            "ARM CPUs, in float32), and on GPUs TVM’s default schedules, which tasks begin with.",
        ),
    ] = "extended"
    precision: Annotated[
        Precision,
        Meta(
            title="Precision",
            description="What products with constant weights are computed in. network: as the network says. bfloat16: data and weights of float32 are "
            "rounded to bfloat16 and summed up in float32; the rest stays as it is. Rounds much more. On CPUs with "
            "instructions for it. Convolutions aren’t tried by Winograd’s algorithm then, which may be faster in float32.",
        ),
    ] = "network"
    quantized: Annotated[
        Literal["auto", "integers", "floats"],
        Meta(
            title="Quantized operators",
            description="How matrix products and convolutions between DequantizeLinear and QuantizeLinear of an uploaded model are computed. "
            "Integers: of 8 bits, summed in 32, which takes a CPU with VNNI or Arm’s dot product. Auto: so if the target’s CPU has that.",
        ),
    ] = "auto"
    task_scheduler: Annotated[
        Literal["gradient", "round-robin"],
        Meta(
            title="Task scheduler",
            description="Gradient gives the next trials to the task expected to reduce the total latency most. "
            "Round-robin gives each task a batch in turn.",
        ),
    ] = "gradient"
    overlap: Annotated[
        Literal["auto", "on", "off"],
        Meta(
            title="Search while measuring",
            description="Search for other tasks while candidates are built and measured. Auto does so unless the device "
            "is this machine's CPU, because that would disturb the measurements.",
        ),
    ] = "auto"
    plateau_trials: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        Meta(
            title="Plateau (trials)",
            description="A task gets no more trials once this many in a row improved it by less than the plateau gain. "
            "The remaining trials go to other tasks; the run ends when none is left. If empty, tasks have no plateau.",
        ),
    ] = None
    plateau_percent: Annotated[
        float,
        Meta(gt=0, lt=100, title="Plateau gain (%)", description="How much a task must improve to get more trials."),
    ] = 1.0
    confirm: Annotated[
        int,
        Meta(
            ge=0,
            le=KEEP_BEST,
            title="Records to confirm per task",
            description="When a run that one machine measures has ended by itself, so many of each task’s best records, as far as they are close, are "
            "measured again in turn: the fastest may just have been lucky. That takes at most 5 % of the time, or 30 s. 0 confirms none.",
        ),
    ] = 3
    number: Annotated[
        int,
        Meta(
            ge=1,
            le=10_000,
            title="Number (executions per repeat)",
            description="Executions averaged into one repeat’s time.",
        ),
    ] = 3
    repeat: Annotated[
        int,
        Meta(
            ge=1,
            le=1000,
            title="Repeat (repeats per trial)",
            description="Repeats of a trial, each averaging that number of executions. Its latency is their mean.",
        ),
    ] = 1
    min_repeat_ms: Annotated[
        int,
        Meta(
            ge=0,
            le=60_000,
            title="Minimum time of a repeat (ms)",
            description="Short functions are executed more often, until one repeat takes at least this long.",
        ),
    ] = 100
    race_margin: Annotated[
        float,
        Meta(
            ge=1.2,
            le=1e6,
            title="Race margin",
            description="A candidate that a short first measurement shows to be this many times slower than its task's "
            "best isn't measured at full length. With a large value every candidate is.",
        ),
    ] = 2.0
    cold_weights: Annotated[
        bool,
        Meta(
            title="Cold weights",
            description="Measure functions with their weights as cold as in the network: before each timed execution, as many bytes are "
            "read as an inference touches between two uses of these weights. On CPUs of the site’s machines.",
        ),
    ] = True
    build_timeout_s: Annotated[
        float,
        Meta(
            gt=0,
            le=3600,
            title="Build timeout (s)",
            description="A candidate that takes longer than this to build fails.",
        ),
    ] = 60.0
    run_timeout_s: Annotated[
        float,
        Meta(
            gt=0,
            le=3600,
            title="Run timeout (s)",
            description="A candidate that takes longer than this to measure fails.",
        ),
    ] = 30.0
    build_workers: Annotated[
        Annotated[int, Meta(ge=1, le=256)] | None,
        Meta(title="Build workers", description="How many candidates are built at once. If empty, one per core."),
    ] = None

    @property
    def in_parts(self) -> bool:
        """Whether Winograd's algorithm may go through a convolution in parts."""
        return self.winograd == "in_parts"

    @property
    def channels_last(self) -> bool:
        """Whether an uploaded network's convolutions are computed with channels last, if that is worth it."""
        return self.data_layout == "channels_last"

    @property
    def as_extrema(self) -> bool:
        """Whether an uploaded network's leaky ReLUs and bounds are computed as maxima and minima."""
        return self.activations == "extrema"

    @property
    def by_phase(self) -> bool:
        """Whether transposed convolutions are computed by phase, as far as they can be."""
        return self.transposed == "by_phase"

    @property
    def whole_vectors(self) -> bool:
        """Whether matrices of constant weights get more columns where no vector divides them. Products in a smaller type have a layout of their own."""
        return self.columns == "whole_vectors" and self.precision == "network"

    @property
    def whole_filters(self) -> bool:
        """As `whole_vectors`, of convolutions with channels last."""
        return self.filters == "whole_vectors" and self.precision == "network"

    @property
    def tries_algorithms(self) -> bool:
        """Whether convolutions may be computed by another algorithm. Those in a smaller type aren't."""
        return self.algorithms == "fastest" and self.precision == "network"

    def first_pass(self, budget: int, tasks: int) -> int:
        """How many trials each of so many tasks gets first, before the task scheduler divides the rest of the budget."""
        default = min(FIRST_TRIALS, int(budget * FIRST_SHARE / tasks)) if tasks > 1 else self.trials_per_batch
        limits = (self.trials_per_batch, budget // tasks, self.max_trials_per_task or budget)
        return max(1, min(self.first_trials or default, *limits))

    def affordable_rivals(self, budget: int, tasks: int) -> int:
        """For how many rivals a budget is large enough, if so many other tasks are tuned; see `first_trials_of`."""
        return max(0, int((RIVALS_SHARE * budget - tasks) / (2 * FIRST_TRIALS - 1)))

    def first_trials_of(self, budget: int, tasks: int, rivals: int) -> int:
        """How many trials that makes in all, if so many of the tasks have rivals: tasks that compute the same by another algorithm."""
        each = self.first_pass(budget, tasks + rivals)
        return min(budget, each * (tasks - rivals) + max(each, FIRST_TRIALS) * 2 * rivals)

    def confirming_s(self, tasks: int, elapsed_s: float) -> float:
        """About how long it takes to confirm so many tasks after so many seconds of tuning: as if half of the records were close."""
        measured_s = CONFIRM_ROUNDS * self.repeat * self.min_repeat_ms / 1e3
        return min(tasks * self.confirm / 2 * measured_s, longest_confirming_s(elapsed_s))

    def contradictions(self) -> dict[str, str]:
        """Errors by option, for options that are valid by themselves but not together."""
        if self.strategy == "evolutionary" and self.cost_model == "none":
            return {
                "cost_model": "The evolutionary search needs a cost model. Choose one, or choose a replay strategy."
            }
        return {}


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
