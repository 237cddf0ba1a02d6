"""How auto_scheduler and AutoTVM tune. Where a field has TVM's own name, its help gives it in parentheses."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Union

import msgspec
from msgspec import Meta

from . import BuildWorkers, ImportedRecords, MinRepeat, Seed, Tasks

WarmStarting = Annotated[
    bool,
    Meta(
        title="Warm start",
        description="Train the cost model with the records that earlier runs of this engine have of the same workloads and target.",
    ),
]
EarlyStopping = Annotated[
    Annotated[int, Meta(ge=1, le=1_000_000)] | None,
    Meta(
        title="Early stopping (trials)",
        description="Stop after this many trials in a row without an improvement (early_stopping). If empty, never.",
    ),
]
Number = Annotated[
    int,
    Meta(
        ge=1,
        le=10_000,
        title="Number (executions per repeat)",
        description="Executions averaged into one repeat’s cost.",
    ),
]
Repeat = Annotated[
    int,
    Meta(
        ge=1,
        le=1000,
        title="Repeat (repeats per trial)",
        description="Repeats of a trial, one cost each. Its latency is their mean.",
    ),
]
BuildTimeout = Annotated[
    int, Meta(ge=1, le=3600, title="Build timeout (s)", description="A candidate that takes longer than this fails.")
]
RunTimeout = Annotated[
    int,
    Meta(
        ge=1,
        le=3600,
        title="Run timeout (s)",
        description="A candidate that takes longer than this to measure fails.",
    ),
]


def _hardware(title: str, description: str) -> Any:
    """A hardware parameter, which TVM finds out itself if it is empty."""
    return Meta(title=title, description=f"{description} (HardwareParams). If empty, TVM's own value for the target.")


Hardware = Annotated[int, Meta(ge=1, le=2**31 - 1)]


class AutoSchedulerOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How auto_scheduler tunes. Defaults are TVM's, but for the measurement, which is short so that trials come often."""

    trials_per_batch: Annotated[
        int,
        Meta(
            ge=1,
            le=1024,
            title="Trials per round",
            description="How many candidates a task gets at a time (num_measures_per_round). "
            "TVM takes fewer if the budget has not as many for every task.",
        ),
    ] = 64
    seed: Seed = None
    tasks: Tasks = None
    warm_start: WarmStarting = True
    imported_records: ImportedRecords = False
    task_scheduler: Annotated[
        Literal["gradient", "round-robin"],
        Meta(
            title="Task scheduler",
            description="Gradient gives the next round to the task expected to reduce the total latency most. "
            "Round-robin gives each task a round in turn.",
        ),
    ] = "gradient"
    cost_model: Annotated[
        Literal["xgb", "random"],
        Meta(
            title="Search policy",
            description="The sketch policy ranks candidates by XGBoost (sketch.xgb) or at random (sketch.random).",
        ),
    ] = "xgb"
    early_stopping: EarlyStopping = None
    layout_rewrite_option: Annotated[
        Literal["auto", "no_rewrite", "insert_transform_stage", "rewrite_for_pre_transformed"],
        Meta(
            title="Layout rewrite",
            description="Whether schedules may change the layout of weights (layout_rewrite_option). "
            "Auto is what TVM's task extraction chooses for the target.",
        ),
    ] = "auto"
    evolutionary_search_population: Annotated[
        int, Meta(ge=1, le=65_536, title="Population", description="Candidates in a generation of the search.")
    ] = 2048
    evolutionary_search_num_iters: Annotated[
        int, Meta(ge=1, le=1000, title="Generations", description="Generations of the search in a round.")
    ] = 4
    sample_init_min_population: Annotated[
        int,
        Meta(
            ge=1,
            le=65_536,
            title="Least valid first candidates",
            description="How many valid random candidates the search begins with.",
        ),
    ] = 50
    eps_greedy: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            title="Random share",
            description="The share of each round that is drawn at random instead of by the cost model (eps_greedy).",
        ),
    ] = 0.05
    num_cores: Annotated[Hardware | None, _hardware("Cores", "Cores of the device")] = None
    vector_unit_bytes: Annotated[Hardware | None, _hardware("Vector unit (bytes)", "Width of a vector register")] = None
    cache_line_bytes: Annotated[Hardware | None, _hardware("Cache line (bytes)", "Size of a cache line")] = None
    max_shared_memory_per_block: Annotated[
        Hardware | None, _hardware("Shared memory per block (bytes)", "Of a GPU")
    ] = None
    max_local_memory_per_block: Annotated[Hardware | None, _hardware("Local memory per block (bytes)", "Of a GPU")] = (
        None
    )
    max_threads_per_block: Annotated[Hardware | None, _hardware("Threads per block", "Of a GPU")] = None
    max_vthread_extent: Annotated[Hardware | None, _hardware("Virtual threads", "Their largest extent, on a GPU")] = (
        None
    )
    warp_size: Annotated[Hardware | None, _hardware("Warp size", "Threads of a GPU's warp")] = None
    number: Number = 3
    repeat: Repeat = 1
    min_repeat_ms: MinRepeat = 100
    build_timeout_s: BuildTimeout = 15
    run_timeout_s: RunTimeout = 10
    build_workers: BuildWorkers = None

    def contradictions(self) -> dict[str, str]:
        """Errors by option, for options that are valid by themselves but not together."""
        if self.sample_init_min_population > self.evolutionary_search_population:
            return {"sample_init_min_population": "Must be at most the population."}
        return {}

    def hardware(self) -> dict[str, int]:
        """The hardware parameters that were given."""
        given = {name: getattr(self, name) for name in HARDWARE}
        return {name: value for name, value in given.items() if value is not None}


HARDWARE = (
    "num_cores",
    "vector_unit_bytes",
    "cache_line_bytes",
    "max_shared_memory_per_block",
    "max_local_memory_per_block",
    "max_threads_per_block",
    "max_vthread_extent",
    "warp_size",
)
"""The options that are fields of TVM's `HardwareParams`."""
Operator = Literal["conv2d", "conv2d_transpose", "conv3d", "dense", "batch_matmul"]
"""`nn.` operators of Relay. Depthwise and grouped convolutions are `conv2d`."""


class AutoTvmOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How AutoTVM tunes one task after the other. Defaults are TVM's, but for the measurement, which is short."""

    tuner: Annotated[
        Literal["xgb", "xgb_rank", "ga", "random", "gridsearch"],
        Meta(
            title="Tuner",
            description="XGBoost by regression or by rank, a genetic algorithm, random candidates, or all in order.",
        ),
    ] = "xgb"
    seed: Seed = None
    tasks: Tasks = None
    ops: Annotated[
        Annotated[list[Operator], Meta(min_length=1)] | None,
        Meta(
            title="Operators",
            description="Extract only tasks of these operators, such as conv2d, dense. If empty, of all that have a template.",
        ),
    ] = None
    max_trials_per_task: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        Meta(
            title="Trials per task",
            description="n_trial of each task; its space may have fewer. If empty, the tasks share the run's budget equally.",
        ),
    ] = None
    early_stopping: EarlyStopping = None
    warm_start: WarmStarting = True
    imported_records: ImportedRecords = False
    transfer: Annotated[
        bool,
        Meta(
            title="Transfer learning",
            description="Train each task's XGBoost model with this run's records of the tasks before it that have its "
            "template. TVM needs 500 of them, and features other than itervar.",
        ),
    ] = False
    feature_type: Annotated[
        Literal["itervar", "knob", "curve"],
        Meta(title="Features", description="What XGBoost knows of a candidate (feature_type)."),
    ] = "itervar"
    plan_size: Annotated[
        int,
        Meta(
            ge=1,
            le=4096,
            title="Plan size",
            description="XGBoost learns and plans anew after this many trials of a task.",
        ),
    ] = 64
    ga_population: Annotated[
        int, Meta(ge=2, le=65_536, title="GA population", description="Genes in a generation (pop_size).")
    ] = 100
    ga_elites: Annotated[
        int, Meta(ge=1, le=65_536, title="GA elites", description="The best genes, which are kept (elite_num).")
    ] = 3
    ga_mutation_prob: Annotated[
        float, Meta(ge=0, le=1, title="GA mutation", description="How likely a knob is to change (mutation_prob).")
    ] = 0.1
    vta_start: Annotated[
        Literal["nn.max_pool2d", "nn.conv2d", "nn.relu"],
        Meta(title="VTA: packed from", description="For VTA, packing begins at the first such operator (start_name)."),
    ] = "nn.max_pool2d"
    vta_stop: Annotated[
        Literal["nn.global_avg_pool2d", "nn.avg_pool2d", "nn.dense"],
        Meta(title="VTA: packed up to", description="For VTA, packing ends at the first such operator (stop_name)."),
    ] = "nn.global_avg_pool2d"
    vta_program: Annotated[
        bool,
        Meta(
            title="VTA: program the FPGA",
            description="Configure a board’s runtime and program its FPGA at the beginning of each session.",
        ),
    ] = True
    vta_bitstream: Annotated[
        Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*\Z", max_length=100)] | None,
        Meta(
            title="VTA: bitstream",
            description="A file beside VTA’s own bitstream, by name; the page Machines lists them. If empty, VTA’s own.",
        ),
    ] = None
    number: Number = 3
    repeat: Repeat = 1
    min_repeat_ms: MinRepeat = 100
    build_timeout_s: BuildTimeout = 10
    run_timeout_s: RunTimeout = 10
    build_workers: BuildWorkers = None

    def contradictions(self) -> dict[str, str]:
        """Errors by option, for options that are valid by themselves but not together."""
        wrong = {}
        if self.transfer and not self.tuner.startswith("xgb"):
            wrong["transfer"] = f"The tuner {self.tuner} learns nothing. Choose xgb or xgb_rank."
        elif self.transfer and self.feature_type == "itervar":
            wrong["transfer"] = "Tasks with loops of another depth have other itervar features: choose knob or curve."
        if self.ga_elites > self.ga_population:
            wrong["ga_elites"] = "Must be at most the population."
        return wrong


LegacyOptions = Union[AutoSchedulerOptions, AutoTvmOptions]
OPTIONS: dict[str, type[AutoSchedulerOptions | AutoTvmOptions]] = {
    "auto_scheduler": AutoSchedulerOptions,
    "autotvm": AutoTvmOptions,
}
"""By engine."""
