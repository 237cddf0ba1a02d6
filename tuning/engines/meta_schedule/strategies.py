"""TVM's search strategies and cost models, sized for the run's batches.

TVM's evolutionary search samples 512 candidates and evolves them for 4 generations, no matter whether it measures 64
or 8 of the last one. Each of these 2,560 costs 2 to 15 ms of CPU, for replaying its trace and extracting features of
its code. With small batches the search would take longer than building and measuring what it finds.
"""

from __future__ import annotations

import os
from typing import Any

from tvm.s_tir import meta_schedule as ms

from tuning.engines.targets.resolving import cores
from tuning.engines.wire.protocol import Options

POPULATION_PER_TRIAL = 4
MIN_POPULATION, MAX_POPULATION = 64, 256
GENERATIONS = 2
WARMUP_TRIALS = 32
"""Trials before the cost model ranks candidates. TVM draws at random for the first 100."""

# Set before OpenMP loads: threads that spin after each of the many short loops of a training steal the cores from it.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def create_strategy(options: Options, trials_per_task: int) -> Any:
    """The search strategy from the options. The budget's `trials_per_task` may make batches smaller than the options."""
    if options.strategy != "evolutionary":
        return ms.search_strategy.SearchStrategy.create(options.strategy)
    wanted = POPULATION_PER_TRIAL * min(options.trials_per_batch, trials_per_task)
    population = max(MIN_POPULATION, min(MAX_POPULATION, wanted))
    return ms.search_strategy.EvolutionarySearch(
        population_size=population, init_min_unmeasured=population // 2, genetic_num_iters=GENERATIONS
    )


def create_first_strategy(options: Options) -> Any:
    """What finds a task's first candidates while the cost model ranks nothing; None: the search strategy does.

    It draws as many as are measured. An evolution would replay dozens of times as many, to choose among them at random.
    """
    return ms.search_strategy.SearchStrategy.create("replay-trace") if options.strategy == "evolutionary" else None


def create_cost_model(options: Options, seed: int | None) -> Any:
    """The cost model from the options."""
    if options.cost_model == "xgb":
        return ms.cost_model.XGBModel(num_warmup_samples=WARMUP_TRIALS, num_tuning_cores=cores())
    return ms.cost_model.RandomModel(seed=seed)
