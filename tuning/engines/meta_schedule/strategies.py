"""TVM's search strategies and cost models, sized for the run's batches.

TVM's evolutionary search samples 512 candidates and evolves them for 4 generations, no matter whether it measures 64
or 8 of the last one. Each of these 2,560 costs 2 to 15 ms of CPU, for replaying its trace and extracting features of
its code. With small batches the search would take longer than building and measuring what it finds.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

import tvm_ffi
from tvm.s_tir import meta_schedule as ms

from tuning.engines.targets.resolving import cores
from tuning.engines.wire.options.meta_schedule import Options

POPULATION_PER_TRIAL = 4
MIN_POPULATION, MAX_POPULATION = 64, 256
GENERATIONS = 2
DRAWS = 8
"""How often candidates are drawn for a batch, which isn't full as long as some are equal."""
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


def create_first_candidates(options: Options, cost_model: Any) -> FirstCandidates | None:
    """What draws a task's first candidates; None: the search strategy finds them, too."""
    return FirstCandidates(cost_model) if options.strategy == "evolutionary" else None


class FirstCandidates:
    """Draws candidates of a task as long as there is nothing to search with.

    An evolution replays and mutates dozens of candidates for each that is measured, which takes as long for one as for sixteen. Before the model can
    rank, it would choose among them at random; after that, a task's first ones, drawn from good sketches, are as good.
    """

    def __init__(self, cost_model: Any) -> None:
        """Takes the model as it was made. TVM gives strategies a handle of it, which doesn't say whether it has learned anything."""
        self._cost_model = cost_model
        self._replay = ms.search_strategy.ReplayTrace()
        self._sketches: Sequence[Any] = ()
        self._drawn: set[int] = set()
        """Structural hashes."""

    @property
    def could_be_ranked(self) -> bool:
        """Whether the cost model has learned enough by now."""
        return is_trained(self._cost_model)

    def initialize(self, context: Any) -> None:
        """Takes TVM's context of the task."""
        self._replay._initialize_with_tune_context(context)  # noqa: SLF001  TVM's name for what strategies override

    def draw_from(self, sketches: Sequence[Any]) -> None:
        self._sketches = sketches

    def draw(self, size: int) -> list[Any]:
        """`size` candidates that are different from each other and weren't drawn before; fewer if so many aren't found."""
        return list(islice(self._new(chain.from_iterable(self._sample(size) for _ in range(DRAWS))), size))

    def _sample(self, size: int) -> Sequence[Any]:
        """Some may be equal, above all in small samples: the first numbers that TVM's generators give are much alike."""
        self._replay.pre_tuning(size, size, self._sketches)
        try:
            return self._replay.generate_measure_candidates() or ()
        finally:
            self._replay.post_tuning()

    def _new(self, candidates: Iterable[Any]) -> Iterator[Any]:
        for candidate in candidates:
            if (own := hash_of(candidate)) not in self._drawn:
                self._drawn.add(own)
                yield candidate

    def clone(self) -> FirstCandidates:
        """For another task."""
        return FirstCandidates(self._cost_model)


def hash_of(candidate: Any) -> int:
    """The same for candidates of a task whose code is the same, whatever was decided."""
    return int(tvm_ffi.structural_hash(candidate.sch.mod))


def is_trained(cost_model: Any) -> bool:
    """Whether it ranks by what it has learned: TVM's XGBModel draws at random before."""
    booster = getattr(cost_model, "booster", None)
    return booster is not None and bool(cost_model.data_size >= cost_model.num_warmup_samples)


def create_cost_model(options: Options, seed: int | None) -> Any:
    """The cost model from the options."""
    if options.cost_model == "xgb":
        return ms.cost_model.XGBModel(num_warmup_samples=WARMUP_TRIALS, num_tuning_cores=cores())
    return ms.cost_model.RandomModel(seed=seed)
