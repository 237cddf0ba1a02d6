"""The shapes in which API and socket show rows."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from django.contrib.auth.models import User
from typing_extensions import NotRequired, TypedDict

from tuning.forecast import ForecastDict

from .fleet import MemberDict

NUL = "\N{REPLACEMENT CHARACTER}"
"""Stands in for a NUL in texts that others wrote."""


def iso(moment: datetime | None) -> str | None:
    """A time in ISO 8601."""
    return moment.isoformat() if moment else None


def username(user: User | None) -> str | None:
    """The name of the user, unless there is none or it was deleted."""
    return user.get_username() if user else None


def storable(text: str) -> str:
    """The text as both databases store it: PostgreSQL takes neither NUL nor unpaired surrogates."""
    return text.replace("\0", NUL).encode(errors="replace").decode()


class Alert(TypedDict):
    """Something about a run that users should know now."""

    kind: str
    task: int | None
    message: str


class WarmStart(TypedDict):
    """Indices of the tasks whose search began with records of earlier runs, and the ids of those runs."""

    tasks: list[int]
    runs: list[int]


class BegunDict(TypedDict):
    """A task's first trial, by which a record of another run was measured again. Latencies in seconds."""

    task: int
    run: int
    """Whose record it is."""
    latency_s: float
    """What it has there."""
    noise: float | None
    """That run's."""
    tried: bool
    measured_s: float | None
    """What it was measured to be here; null before that, and if it failed."""


class SessionDict(TypedDict):
    """A start of somebody else's tuner: the number of its first trial, and when it began and with which TVM, if the log says so."""

    trial: int
    started_at: str | None
    tvm: str | None


class TaskDict(TypedDict):
    """A task; latencies in seconds, `flop` of one execution. Only chosen tasks are tuned; a plateaued one has stopped improving.

    `weight` and `flop` are null if they aren't recorded. `flop_derived` says that `flop` was derived from the arguments.
    `space` is the number of candidates in the task's design space, which only AutoTVM can count.
    """

    index: int
    name: str
    weight: int | None
    flop: float | None
    flop_derived: bool
    args: list[dict[str, Any]]
    space: int | None
    cold_bytes: int | None
    """Bytes that an inference touches between two uses of its weights, if its trials are measured with weights as cold as there; null: as its run's."""
    trials: int
    failed: int
    best_latency_s: float | None
    best_trial: int | None
    gflops: float | None
    confirmed_latency_s: float | None
    """The median of its best record's measurements at the end of the run; null, like the next three, if it isn't confirmed."""
    confirmed_trial: int | None
    """Whose record that is: not always the one of `best_trial`, which may have been lucky."""
    confirmed_times: int | None
    """How often it was measured."""
    confirmed_noise: float | None
    """How far these measurements lay apart, as a share."""
    chosen: bool
    plateaued: bool


class RunFacts(TypedDict):
    """A run; latencies and `elapsed_s` in seconds, times in ISO 8601 with zone.

    The estimate covers the `tasks_chosen` of the `tasks_total`. `finish_reason` says why the engine ended by itself.
    `revision` counts the edits of name and notes, and an edit names the revision that it is based on.
    `origin` says who tuned: the site itself if it was launched here. Of other runs much isn't recorded: `network`, `trials_budget` and
    `elapsed_s` may be null, and `device` empty. `bad_lines` counts the lines of their logs that couldn't be read.
    """

    id: int
    name: str
    project: str
    revision: int
    status: str
    engine: str
    interpreter: str | None
    """Of an engine that runs under another interpreter; see GET /api/v1/devices."""
    origin: str
    network: str | None
    network_options: dict[str, Any]
    target: Any
    device: str
    machine: str | None
    """Which one tunes it, or did so last."""
    chosen_machine: str | None
    """The only one that may; None for any that fits."""
    priority: str
    machines_wanted: int | None
    """How many equal machines measure it; null for all that there are."""
    machines: list[MemberDict]
    """Those that did so far, if it is measured on more than one."""
    options: dict[str, Any]
    versions: dict[str, str]
    trials_budget: int | None
    time_limit_s: float | None
    trials_done: int
    trials_failed: int
    trials_noisy: int
    """Those that were measured while others' processes used more than a quarter of the machine."""
    tasks_total: int
    tasks_spare: int
    """Those besides, each of which computes the same as one of the others by a slower algorithm."""
    tasks_chosen: int
    tasks_measured: int
    tasks_confirmed: int
    """Those whose best records were measured again since their last improvement."""
    cold_bytes: int | None
    """Bytes that an inference touches, in weights and in results, if trials are measured with weights as cold as there; 0 if they are in the caches, null if that isn't recorded."""
    estimated_latency_s: float | None
    confirmed_latency_s: float | None
    """As the estimate, of confirmed latencies; null unless all of its tasks are confirmed."""
    noise: float | None
    """How far measurements of the same thing lie apart, as a share; null if that isn't recorded."""
    warm_start: WarmStart | None
    adapted: WarmStart | None
    """The tasks that began with the schedules of similar ones, and the runs that these come from."""
    continues: int | None
    """The run whose trials it began with."""
    phase: str | None
    phase_task: int | None
    place: int | None
    """How many runs come before a queued one."""
    waits: str | None
    """What a queued run waits for."""
    elapsed_s: float | None
    remaining: ForecastDict | None
    created_by: str | None
    created_at: str
    started_at: str | None
    finished_at: str | None
    finish_reason: str | None
    error: str | None
    alerts: list[Alert]
    synthetic: bool
    simulator: str | None
    """What simulates the target. Latencies are then its wall time, and no task has `gflops`."""
    sessions: list[SessionDict]
    bad_lines: int


class RunWords(TypedDict):
    """What pages say about a run, as plain text; empty where there is nothing to say.

    What it is doing or why it ended, which tasks its estimate covers, what stands in place of the estimate while it is unknown, which
    records it began with, how many of its tasks are confirmed if not all are, how noisy its estimate is (`± 2 %`), how many trials are noisy, and why it isn't known how long it will go on.
    """

    phase: str
    coverage: str
    unknown: str
    warm_start: str
    confirmed: str
    noise: str
    noisy: str
    remaining: str


class RunDict(RunFacts):
    """A run with its facts in words.

    Deltas leave out what users organize runs by (`tags` to `deleted_at`). Only a single run, not a list, comes with its tasks, its
    `notes` in Markdown and who edited them last, the options that differ from those of the run that it continues, each with both
    values, and the runs that continue it.
    """

    words: RunWords
    tags: NotRequired[list[str]]
    pinned: NotRequired[bool]
    archived: NotRequired[bool]
    deleted_at: NotRequired[str | None]
    tasks: NotRequired[list[TaskDict]]
    changed_options: NotRequired[dict[str, list[Any]]]
    continued_by: NotRequired[list[int]]
    notes: NotRequired[str]
    edited_by: NotRequired[str | None]
    edited_at: NotRequired[str | None]


class WrittenDict(TypedDict):
    """A run's name and notes, and who edited them last; null if nobody did."""

    name: str
    notes: str
    revision: int
    edited_by: str | None
    edited_at: str | None


class TrialColumns(TypedDict):
    """Trials as columns of equal length, ordered by number; `last` is the number of the last trial that they cover.

    `error` is the kind of error. `short` marks trials that were measured in a few short laps only, because they were clearly
    slower than their task's best. `nth` counts the trials of the same task. `improved` marks trials that were their task's best
    when they were measured, `noisy` those that were measured while others' processes used more than a quarter of the machine.
    `at_s` is null where it isn't recorded, and so is `machine`, the name of the machine that measured the trial.
    """

    number: list[int]
    task: list[int]
    latency_s: list[float | None]
    error: list[str | None]
    short: list[bool]
    at_s: list[float | None]
    nth: list[int]
    improved: list[bool]
    noisy: list[bool]
    machine: list[str | None]
    last: int


class RunDelta(TypedDict):
    """What a commit changed: trials `after` < number ≤ `last`, the run without its tasks, and the tasks that changed.

    If only the status or phase changed, `after` equals `last` and the columns are empty.
    """

    type: Literal["delta"]
    after: int
    last: int
    trials: TrialColumns
    run: RunDict
    tasks: list[TaskDict]


class RunErrorDict(TypedDict):
    """A distinct error text of a run; `tasks` has the indices of the tasks that it occurred in."""

    kind: str
    text: str
    count: int
    first_trial: int
    last_trial: int
    tasks: list[int]


class UploadedDict(TypedDict):
    size: int | None
    sha256: str


class SourceDict(UploadedDict):
    """The uploaded file that an ONNX file was converted from: `pt2`, a program of `torch.export`.

    `saved_by` is the version of PyTorch that saved it, `versions` are those of the packages that converted it.
    """

    format: str
    saved_by: str
    versions: dict[str, str]


class NetworkBatchDict(TypedDict):
    """A model for one batch."""

    batch: int
    id: int
    name: str


class NetworkDetail(TypedDict):
    """A stored network: a built-in one with its options, or an uploaded model with its file and dimensions.

    What isn't known before inspection is null or empty. `flop` of one inference, `size` in bytes. `size` and `sha256` are of the file that
    is tuned: the uploaded one, or what it was converted to (`source`).
    """

    id: int
    name: str
    project: str | None
    """Of an uploaded model; a built-in network is everybody's."""
    kind: str
    options: dict[str, Any]
    dims: dict[str, int]
    batches: list[NetworkBatchDict]
    """The uploaded model for each batch that it was added for, the smallest first; empty if that is only one."""
    file_name: str | None
    size: int | None
    sha256: str | None
    source: SourceDict | None
    inputs: list[dict[str, Any]]
    parameters: int | None
    operators: dict[str, int]
    float_model: int | None
    """The network that a quantized one was made from."""
    flop: float | None
    uploaded_by: str | None
    uploaded_at: str | None


class ExtractedTaskDict(TypedDict):
    """A task before anything is tuned; `flop` of one of its `weight` executions, `args` with the output last."""

    index: int
    name: str
    weight: int | None
    flop: float | None
    workload_hash: str
    args: list[dict[str, Any]]
    tensorir: str


class ExtractionDict(TypedDict):
    """A network's tasks for a target. There are none while it is queued or running; `step` says what the job is doing."""

    id: int
    network: str
    target: dict[str, Any]
    status: str
    step: str
    error: str | None
    created_at: str
    finished_at: str | None
    tasks: list[ExtractedTaskDict]


class ImportDict(TypedDict):
    """An import of log files; sizes in bytes.

    `results` says what became of each log in the files: `log`, `engine`, the `run`, and whether it was `known` already. `skipped` has
    files without records (`file`, `reason`), `remarks` what else there is to say of a file (`file`, `line` or 0, `text`). All bad lines are
    counted, and some thousands are kept.
    """

    id: int
    project: str
    status: str
    error: str | None
    files: list[dict[str, Any]]
    bytes_total: int
    bytes_read: int
    lines: int
    records: int
    bad_lines: int
    results: list[dict[str, Any]]
    skipped: list[dict[str, str]]
    remarks: list[dict[str, Any]]
    created_by: str | None
    created_at: str
    finished_at: str | None


class CoverageDict(TypedDict):
    """How many of a compiled network's functions a record was applied to, and the names of the others."""

    functions: int
    tuned: int
    untuned: list[str]


class LatencyDict(TypedDict):
    """Seconds of one inference over the rounds of a benchmark; `std_s` is the population standard deviation, `spread` its share of the median: null for a single round."""

    rounds: int
    mean_s: float
    median_s: float
    max_s: float
    min_s: float
    std_s: float | None
    spread: float | None


class PartDict(TypedDict):
    """A function inside the network; `inside_s` is the median time of one of its `calls` in an inference."""

    function: str
    calls: int
    inside_s: float


class ProfileDict(TypedDict):
    """Where the time of an inference goes. `machine_s` is what the virtual machine's own calls take in all, such as for memory and tuples."""

    functions: list[PartDict]
    machine_s: float
    machine_calls: int


class BatchBenchmarkDict(TypedDict):
    """One batch in the benchmark of a library that takes any; the errors are relative to the untuned library's outputs for it."""

    batch: int
    tuned: LatencyDict | None
    untuned: LatencyDict | None
    onnxruntime: LatencyDict | None
    without_onnxruntime: str | None
    max_abs_error: float | None
    max_rel_error: float | None


class AccuracyDict(TypedDict):
    """How far a quantized model's library is from the float model, a network of that `name`, over so many `samples` of random inputs.

    `rms_error` is the root mean square of the differences, divided by that of the float model's outputs; `max_error` the largest difference,
    divided by the float model's largest absolute value: both of the output where they are worst, null where one isn't finite. Of so many `rows`
    of the first output, if that is a matrix, `same_largest` have their largest value in the same column. `without` says why nothing was compared.
    """

    network: int
    name: str
    samples: int
    rms_error: float | None
    max_error: float | None
    rows: int
    same_largest: int
    without: str | None


class BenchmarkDict(TypedDict):
    """One benchmark; `without_onnxruntime` says why ONNX Runtime wasn't measured.

    Of a library that takes any batch, its figures are those of the run's own, and `batches` has those of each.
    `speedup` is the untuned library's median divided by that of the tuned one, and `speedup_over_onnxruntime` that of ONNX Runtime, which
    is below 1 if ONNX Runtime is faster. `float_model` is that of a quantized model, in ONNX Runtime.
    """

    id: int
    at: str
    created_by: str | None
    rounds: int
    tuned: LatencyDict | None
    untuned: LatencyDict | None
    onnxruntime: LatencyDict | None
    float_model: LatencyDict | None
    onnxruntime_version: str | None
    without_onnxruntime: str | None
    speedup: float | None
    speedup_over_onnxruntime: float | None
    speedup_over_float_model: float | None
    accuracy: AccuracyDict | None
    """Null if there was no float model to compare with."""
    profile: ProfileDict | None
    """Null if it isn't recorded: on GPUs and remote devices, by older TVMs, and by earlier versions."""
    batches: list[BatchBenchmarkDict]


class UntunedDict(TypedDict):
    """A task without a record to compile with, and why it has none."""

    index: int
    name: str
    weight: int | None
    why: str


class RecordCoverageDict(TypedDict):
    """What a compilation with the records of `source` would build untuned, of so many `tasks`.

    `trouble` says why the run can't be compiled so; nothing is known then of its tasks.
    """

    source: str
    tasks: int
    untuned: list[UntunedDict]
    trouble: str | None


class BatchDict(TypedDict):
    """A batch that a library has functions for, if it takes any: the run whose records it has, and what `CompilationDict` has of the run's own."""

    batch: int
    run: int
    estimate_s: float | None
    coverage: CoverageDict | None
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]


class CompilationDict(TypedDict):
    """A compilation; what isn't known yet is null.

    `used` has, for each function that a record was applied to: `function`, and the record's `run`, `trial` and `latency_s`.
    `chosen` says what choosing inside the network led to: for each of `functions` how often an inference `calls` it, the records that
    were `tried` (`run`, `trial`, `latency_s` alone, `inside_s`) and which was `chosen` of them; the `rounds` of the comparison of the
    `best` with the `chosen` records, in seconds; and whether the latter were `kept`. `cuda_graphs` is how many the library captures, null if
    each kernel is launched by itself.
    The library exists once `sha256` is set. `verified`, the errors and `tolerance` come from the last proof, `measured_s` and
    both speed-ups from the last benchmark. `waits_for` is the device that a queued proof waits for. `precision` is the run's option: what it
    changes is in the errors, since the untuned library computes as the network says. `batches` is empty unless the library takes any batch: then
    errors are those of the batch that is worst, and everything else is about the run's own.
    """

    id: int
    run: int
    run_name: str
    network: str
    target: Any
    device: str
    source: str
    imported_records: bool
    """Whether it may have records that were imported or streamed."""
    status: str
    stage: str
    phase: str | None
    progress: float | None
    waits_for: str | None
    error: str | None
    created_by: str | None
    created_at: str
    started_at: str | None
    finished_at: str | None
    versions: dict[str, str]
    coverage: CoverageDict | None
    used: list[dict[str, Any]]
    chosen: dict[str, Any] | None
    cuda_graphs: int | None
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    batches: list[BatchDict]
    precision: str
    size: int | None
    sha256: str | None
    verified: bool | None
    max_abs_error: float | None
    max_rel_error: float | None
    tolerance: dict[str, Any] | None
    estimate_s: float | None
    measured_s: float | None
    speedup: float | None
    speedup_over_onnxruntime: float | None
    benchmarks: list[BenchmarkDict]
