"""What candidates are searched with: TVM's strategies and cost models, sized for a run's batches.

TVM's evolutionary search draws 512 candidates and breeds 4 generations of them, whether 64 or 8 of the last are
measured. Each of these 2,560 costs a replay of its trace and the features of its code, 2 to 15 ms of CPU: with small
batches the search takes longer than all that it finds does to build and measure.
"""

from __future__ import annotations

import os
from typing import Any

from tvm.s_tir import meta_schedule as ms

from tuning.engines.targets.resolving import cores
from tuning.engines.wire.protocol import Options

DRAWN = 4
"""Candidates of a generation for each that is measured."""
LEAST, MOST = 64, 256
GENERATIONS = 2
LEARNT = 32
"""Trials from which on the cost model ranks; TVM draws by chance up to 100."""

# Must be set before OpenMP is loaded: threads that spin after each of a training's short loops steal the cores from it.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def strategy(options: Options, share: int) -> Any:
    """The search strategy that the options name, for batches that the budget may make smaller: a task's `share` of it."""
    if options.strategy != "evolutionary":
        return ms.search_strategy.SearchStrategy.create(options.strategy)
    population = max(LEAST, min(MOST, DRAWN * min(options.trials_per_batch, share)))
    return ms.search_strategy.EvolutionarySearch(
        population_size=population, init_min_unmeasured=population // 2, genetic_num_iters=GENERATIONS
    )


def cost_model(options: Options, seed: int | None) -> Any:
    """The cost model that the options name."""
    if options.cost_model == "xgb":
        return ms.cost_model.XGBModel(num_warmup_samples=LEARNT, num_tuning_cores=cores())
    return ms.cost_model.RandomModel(seed=seed)
