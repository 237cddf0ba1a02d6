"""How MetaSchedule tunes."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from . import KEEP_BEST, BuildWorkers, ImportedRecords, MinRepeat, Seed, Tasks
from .rewrites import Precision, Rewrites

FIRST_TRIALS, FIRST_SHARE = 4, 0.15
"""Trials of each task in the first pass by default, and at most how much of the budget that takes."""
RIVALS_SHARE = 0.5
"""At most this share of a budget is spent to find out which of two algorithms is faster, and on a first trial of each other task."""

CONFIRM_ROUNDS = 5
"""Measurements of each record that is confirmed: as many as it takes to tell noise."""
CONFIRM_LEAST_S, CONFIRM_SHARE = 30.0, 0.05
"""Confirming takes at most this share of the tuning, but so many seconds are always allowed."""


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
    seed: Seed = None
    max_trials_per_task: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        Meta(title="Maximum trials per task", description="If empty, only the run's budget limits them."),
    ] = None
    tasks: Tasks = None
    warm_start: Annotated[
        bool,
        Meta(
            title="Warm start",
            description="Start from the best records of earlier runs for the same workloads and target. "
            "The best one for each task is measured again as a trial of this run.",
        ),
    ] = True
    imported_records: ImportedRecords = False
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
    min_repeat_ms: MinRepeat = 100
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
    build_workers: BuildWorkers = None

    @property
    def rewrites(self) -> Rewrites:
        """How the network is computed."""
        return Rewrites.of(msgspec.structs.asdict(self))

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
