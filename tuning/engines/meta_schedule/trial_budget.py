"""Which task is tuned next, and how many candidates its batch may have. No TVM here.

TVM's gradient scheduler gives each task a whole batch at first, so that a small budget is gone before the last task had
its turn, and never picks a task again whose first batch failed. Its formula is kept here; who is due is decided anew.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from tuning.engines.wire.protocol import Options

from .plateau import Plateau

ALPHA, WINDOW = 0.2, 3
"""As TVM's: the weight of what was gained lately, and over how many batches that is."""


@dataclass
class Standing:
    """How far one task is."""

    weight: int
    plateau: Plateau
    best_s: list[float] = field(default_factory=list)
    """Its best latency after each of its trials; infinite before the first valid one."""
    under_way: int = 0
    """Candidates that are being built or measured, or wait for it."""
    exhausted: bool = False
    """The search found nothing more to try."""

    @property
    def trials(self) -> int:
        """How many it had."""
        return len(self.best_s)

    @property
    def best(self) -> float:
        """Its best latency in seconds; infinite before the first valid trial."""
        return self.best_s[-1] if self.best_s else math.inf

    @property
    def measured(self) -> bool:
        """Whether a trial was valid."""
        return self.best < math.inf

    def add(self, latency_s: float | None) -> None:
        """One more trial; None when it failed."""
        self.best_s.append(min(self.best, math.inf if latency_s is None else latency_s))


class Allotment:
    """Gives the budget's trials to the chosen tasks."""

    def __init__(self, weights: Sequence[int], chosen: Sequence[int], options: Options) -> None:
        self.standings = [Standing(weight, self._plateau(options)) for weight in weights]
        self.chosen = list(chosen)
        self._options = options
        self._last = -1

    @staticmethod
    def _plateau(options: Options, best_s: float = math.inf) -> Plateau:
        return Plateau(options.plateau_percent, options.plateau_trials, best_s)

    def earlier(self, task: int, latency_s: float | None) -> None:
        """A trial of an earlier process. It is no part of a plateau: who continues a run wants more of each task."""
        self.standings[task].add(latency_s)
        self.standings[task].plateau = self._plateau(self._options, self.standings[task].best)

    def ended(self, task: int, latency_s: float | None) -> bool:
        """A trial ended; says whether its task has just reached its plateau."""
        standing = self.standings[task]
        before = standing.plateau.reached
        standing.under_way -= 1
        standing.add(latency_s)
        standing.plateau.add(latency_s)
        return standing.plateau.reached and not before

    @property
    def under_way(self) -> int:
        """Candidates of all tasks that aren't measured yet."""
        return sum(standing.under_way for standing in self.standings)

    def left_of(self, task: int, left: int) -> int:
        """Trials that the task may still have when the budget has `left`."""
        limit = self._options.max_trials_per_task
        standing = self.standings[task]
        return left if limit is None else max(0, min(left, limit - standing.trials - standing.under_way))

    def next(self, left: int) -> int | None:
        """The task to tune when the budget has `left` trials besides those under way; None when none shall have any.

        A task whose first candidates are under way isn't called unmeasured yet: others go first.
        """
        able = self._able(left)
        unmeasured = [task for task in able if self._lacks_a_latency(task)]
        due = [task for task in unmeasured if self._is_due(task, scarce=left <= len(unmeasured))]
        measured = [task for task in able if self.standings[task].measured]
        if due or not measured:
            return min(due or unmeasured or able, key=lambda task: self.standings[task].trials, default=None)
        self._last = (
            self._turn(measured) if self._options.task_scheduler == "round-robin" else self._promising(measured)
        )
        return self._last

    def share(self, task: int, left: int) -> int:
        """Candidates of the task's next batch: each task that has no latency yet keeps its part of what is left."""
        unmeasured = [other for other in self._able(left) if self._lacks_a_latency(other)]
        fair = left // len(unmeasured) if task in unmeasured else left - len(unmeasured)
        return min(self._options.trials_per_batch, self.left_of(task, left), max(1, fair))

    @property
    def gave_up(self) -> bool:
        """Whether a plateau is why no task shall have any more."""
        return any(self.standings[task].plateau.reached for task in self.chosen)

    def _able(self, left: int) -> list[int]:
        """The tasks that may have more trials."""
        return [
            task
            for task in self.chosen
            if self.left_of(task, left)
            and not self.standings[task].exhausted
            and not self.standings[task].plateau.reached
        ]

    def _lacks_a_latency(self, task: int) -> bool:
        return not self.standings[task].measured and not self.standings[task].under_way

    def _is_due(self, task: int, *, scarce: bool) -> bool:
        """Whether a task without a valid trial goes first.

        It does until it had its equal part of all trials: without its latency there is no estimate, but one that can
        never be built must not eat up the others' budget. With no more trials left than such tasks, nobody else has any.
        """
        trials = self.standings[task].trials
        done = sum(self.standings[one].trials for one in self.chosen)
        return scarce or trials == 0 or trials <= done / len(self.chosen)

    def _turn(self, tasks: list[int]) -> int:
        return next((task for task in tasks if task > self._last), tasks[0])

    def _promising(self, tasks: list[int]) -> int:
        return max(tasks, key=lambda task: self._gradient(self.standings[task]))

    def _gradient(self, standing: Standing) -> float:
        """Seconds of the total that a batch may gain: by what it gained lately, and by TVM's optimistic 1/n."""
        window = WINDOW * self._options.trials_per_batch
        earlier = standing.best_s[-1 - window] if standing.trials > window else math.inf
        lately = (earlier - standing.best) / WINDOW if earlier < math.inf else 0.0
        batches = standing.trials / self._options.trials_per_batch
        return (ALPHA * lately + (1 - ALPHA) * standing.best / batches) * standing.weight
