"""TVM's search strategies, within the run's budget and with what was measured before."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from tuning.engines.measuring.outcomes import Failure, Timing
from tuning.engines.wire.errors import in_one_line
from tuning.logs.meta_schedule import FAILED_RUN_SECS

from .earlier.adapting import Space
from .earlier.neighbours import Neighbours
from .earlier.warm_start import PriorRecords
from .rounds.stopwatch import RoundTimes
from .spaces.candidates import default_candidate
from .spaces.marks import BY_ROWS, IN_BLOCKS, TILED, marks
from .strategies import WARMUP_TRIALS, FirstCandidates
from .trials import Trials

FROM_NEIGHBOURS_AT_FIRST, FROM_NEIGHBOURS = 0.5, 0.25
"""How much of a task's first batch, and of each later one, is adapted from similar tasks, if they have found anything new."""
OURS = {TILED: "Register tiles", BY_ROWS: "Rows that are computed at once", IN_BLOCKS: "Transpositions in blocks"}
"""What a run's console calls the kinds of our sketches."""
logger = logging.getLogger("tuneboard")


@dataclass
class Batch:
    """Candidates on their way to the device. TVM's builder and runner interfaces don't say whose they are."""

    task: int = 0
    candidates: list[Any] = field(default_factory=list)
    built: list[int] = field(default_factory=list)
    """Indices of the candidates that were built, or are being built, in the order in which TVM sends them to the runner."""
    builds: dict[int, Future[Path | Failure]] = field(default_factory=dict)
    """By index, what becomes of candidates that are built beside the search's thread."""
    times: RoundTimes = field(default_factory=lambda: RoundTimes(None, 0, 0.0))


class Search:
    """What the strategy, the builder and the runner share."""

    def __init__(
        self,
        trials: Trials,
        task_by_name: dict[str, int],
        target: Any,
        prior: PriorRecords,
        neighbours: Neighbours | None = None,
    ) -> None:
        """Without `neighbours`, tasks learn nothing of each other's schedules."""
        self.trials = trials
        self.task_by_name = task_by_name
        self.target = target
        self.prior = prior
        self.neighbours = neighbours
        self.spaces: dict[int, Space] = {}
        """By task; complete before the first batch."""
        self.batch = Batch()
        """The batch that is being built or sent to the runner. Earlier ones may still be waiting for the device."""
        self.marked: dict[int, set[str]] = {}
        """By task, which of our sketches its design space has."""
        self.defaults: dict[int, Any] = {}
        """By task, its default schedule as a candidate, which comes first. Once it was tried it is no longer here."""

    def adapt_earlier(self) -> None:
        """Adapt what earlier runs found for similar tasks, and have tasks know what is known of others; all `spaces` are known."""
        self.trials.report_adapted(self.prior.adapt(self.spaces))
        if self.neighbours:
            for task in self.spaces:
                if best := self.prior.best(task):
                    self.neighbours.know(task, *best)

    def tell_neighbours(self) -> None:
        """Log what came of what tasks have learned from each other."""
        if self.neighbours:
            logger.info("%s", self.neighbours.summary)

    def next_batch(self, task: int, generate: Callable[[int], Any]) -> list[Any] | None:
        """Candidates of the task, no more than its budget allows; None if there are none left.

        The best candidate of earlier runs comes first, in a batch of its own: this run needs a latency of its own. If nothing is known of the
        task, those that were adapted from similar ones come first, with others: the nearest shapes may still be far.
        """
        size, best = self.trials.batch_size(task), self.prior.take_best_candidate(task)
        stopwatch = self.trials.stopwatch
        times = stopwatch.begin(task, self.trials.done)
        if best is None:
            self.trials.report_phase("searching", task)
        with stopwatch.doing("search"):
            candidates = self._adapted_and(task, size, generate) if best is None else [best]
        if candidates is None:
            self.trials.budget.progress[task].exhausted = True
            return None
        self.batch = Batch(task, candidates[:size], times=times)
        stopwatch.hold(times, len(self.batch.candidates))
        self.trials.add_in_flight(task, len(self.batch.candidates))
        return self.batch.candidates

    def _adapted_and(self, task: int, size: int, generate: Callable[[int], Any]) -> list[Any] | None:
        """The default schedule, what was adapted to the task, and as many more as the batch has room for; None if there are none left."""
        adapted = [self.defaults.pop(task)] if task in self.defaults else []
        adapted += self.prior.take_adapted(task, size - len(adapted))
        if self.neighbours:
            most = min(size - len(adapted), self._from_neighbours(task, size))
            adapted += self.neighbours.offer(task, self.spaces[task], most)
        if len(adapted) == size:
            return adapted
        generated = generate(size - len(adapted))
        return [*adapted, *(generated or ())] if adapted or generated is not None else None

    def _from_neighbours(self, task: int, size: int) -> int:
        begins = self.trials.budget.progress[task].begins
        return math.ceil(size * FROM_NEIGHBOURS_AT_FIRST) if begins else int(size * FROM_NEIGHBOURS)

    def end_trial(self, batch: Batch, index: int, outcome: Timing | Failure, *, measure_s: float = 0.0) -> int:
        """End the trial of the batch's candidate, which was measured so long beside the search's thread; return its number."""
        number = self.trials.end_trial(batch.task, batch.candidates[index], outcome, self.target)
        self.trials.stopwatch.ended(batch.times, measure_s=measure_s)
        return number


@derived_object
class Strategy(ms.search_strategy.PySearchStrategy):  # type: ignore[misc]
    """Wraps one of TVM's search strategies, and what draws a task's `first` candidates, if anything does."""

    def __init__(
        self, inner: Any, search: Search, first: FirstCandidates | None = None, *, defaults: bool = False
    ) -> None:
        """With `defaults`, tasks begin with TVM's default schedules for GPUs."""
        super().__init__()
        self._defaults = defaults
        self._inner = inner
        self._first = first
        self._search = search
        self._task = 0
        self._mod: Any = None
        self._database: Any = None
        self._context: Any = None

    def _initialize_with_tune_context(self, context: Any) -> None:
        self._task = self._search.task_by_name[str(context.task_name)]
        self._mod = context.mod
        self._context = context
        self._inner._initialize_with_tune_context(context)  # noqa: SLF001  TVM's name for what strategies override
        if self._first:
            self._first.initialize(context)

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: Any,
        database: Any = None,
        cost_model: Any = None,
    ) -> None:
        """Start with the task, whose design spaces are known now, and report that the next task's follow."""
        self._database = database
        self._search.spaces[self._task] = Space(self._context, design_spaces)
        self._inner.pre_tuning(max_trials, num_trials_per_iter, design_spaces, database, cost_model)
        marked = [(sketch, marks(sketch)) for sketch in design_spaces]
        self._search.marked[self._task] = set().union(*(kinds for _, kinds in marked))
        if self._first:
            # Most that are drawn from ours are good, of the others few.
            self._first.draw_from([sketch for sketch, kinds in marked if kinds] or design_spaces)
        if self._defaults and self._search.trials.budget.progress[self._task].begins:
            self._begin_with_default()
        following = [task for task in self._search.trials.budget.chosen if task > self._task]
        if following:
            self._search.trials.report_phase("design_spaces", following[0])
            return
        self._search.adapt_earlier()
        if defaults := len(self._search.defaults):
            logger.info("%d of %d tasks begin with TVM's default schedule.", defaults, len(self._search.spaces))
        for kind, name in OURS.items():
            if offered := sum(kind in kinds for kinds in self._search.marked.values()):
                logger.info("%s are among the schedules of %d of %d tasks.", name, offered, len(self._search.marked))

    def _begin_with_default(self) -> None:
        """The run goes on without it if TVM can't make it."""
        try:
            default = default_candidate(self._context, self._search.target)
        except Exception as error:  # noqa: BLE001  TVM raises various errors
            logger.warning("TVM has no default schedule of task %d: %s", self._task, in_one_line(error))
            return
        if default:
            self._search.defaults[self._task] = default

    def post_tuning(self) -> None:
        self._inner.post_tuning()

    def generate_measure_candidates(self) -> Any:
        """A batch of candidates; None if the task has none left."""
        return self._search.next_batch(self._task, self._generate)

    def _generate(self, room: int) -> Any:
        """What is drawn for the `room` that the batch has, if candidates are and any new one is valid, else what is searched: a whole batch."""
        drawn = None
        if self._first and self._draws(self._first):
            drawn = self._first.draw(room)
        return drawn or self._inner.generate_measure_candidates()

    def _draws(self, first: FirstCandidates) -> bool:
        """Whether the batch is drawn: as long as the run hasn't enough trials for the cost model to rank, and the task's first one if sketches are good."""
        trials = self._search.trials
        if trials.done < WARMUP_TRIALS and not first.could_be_ranked:
            return True
        begins = trials.budget.progress[self._task].begins
        return begins and (any(self._search.marked.values()) or not first.could_be_ranked)

    def notify_runner_results(self, measure_candidates: Any, results: Any) -> None:
        if self._search.neighbours:
            self._search.neighbours.learn(self._task, measure_candidates, results)
        self._commit(measure_candidates, results)
        self._inner.notify_runner_results(measure_candidates, results)

    def _commit(self, measure_candidates: Any, results: Any) -> None:
        """Write to the database that the search reads. Only the search's thread does, since TVM's isn't thread-safe."""
        workload = self._database.commit_workload(self._mod)
        for candidate, result in zip(measure_candidates, results, strict=True):
            run_secs = [FAILED_RUN_SECS] if result.run_secs is None else result.run_secs
            self._database.commit_tuning_record(
                ms.database.TuningRecord(
                    candidate.sch.trace, workload, run_secs, self._search.target, candidate.args_info
                )
            )

    def clone(self) -> Any:
        """Return a strategy for another task."""
        first = self._first and self._first.clone()
        return Strategy(self._inner.clone(), self._search, first, defaults=self._defaults)
