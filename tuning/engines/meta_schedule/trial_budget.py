"""Divides a run's trials among its tasks: which task is next, and how large its batch may be. No TVM here.

TVM's gradient scheduler first gives each task a whole batch, so a small budget is spent before the last task has had
its turn, and it never returns to a task whose first batch failed. We keep its formula for measured tasks, and give
unmeasured ones a few trials each: then there is an estimate, and the formula knows where more trials are worth most.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tuning.engines.wire.options.meta_schedule import FIRST_TRIALS, Options

from .plateau import Plateau

ALPHA, WINDOW = 0.2, 3
"""As in TVM: the weight of a task's recent gain, and the number of batches that it is taken over."""

MAX_POOLED_BATCH = 64
"""Up to this size, the search's population grows with the batch (`strategies`), so a candidate costs about as much."""
BEHIND_TRIALS = 4.0
"""A task is behind its rival if it is slower by more than the n-th part of this after n trials: less and less is left to luck."""
BATCHES = 10
"""A search that learns less often than this from its budget finds less."""


def pooled_batch(options: Options, slots: int, trials: int) -> int:
    """Trials per batch where machines want so many candidates at once, for a budget of `trials`.

    Each batch has a price of its own, such as training the cost model, and on many machines small ones come often.
    """
    return max(options.trials_per_batch, min(slots, MAX_POOLED_BATCH, trials // BATCHES))


@dataclass
class TaskProgress:
    """The trials of one task."""

    weight: int
    plateau: Plateau
    best_history_s: list[float] = field(default_factory=list)
    """The best latency after each trial; infinite before the first valid one."""
    in_flight: int = 0
    """Candidates that are being built or measured, or that wait for it."""
    exhausted: bool = False
    """Whether the search has run out of candidates."""

    @property
    def trials(self) -> int:
        """How many trials have ended."""
        return len(self.best_history_s)

    @property
    def best_s(self) -> float:
        """The best latency; infinite before the first valid trial."""
        return self.best_history_s[-1] if self.best_history_s else math.inf

    @property
    def measured(self) -> bool:
        """Whether any trial was valid."""
        return self.best_s < math.inf

    @property
    def begins(self) -> bool:
        """Whether it has had no candidate yet."""
        return not self.trials and not self.in_flight

    def add(self, latency_s: float | None) -> None:
        """Count a trial; None means it failed."""
        self.best_history_s.append(min(self.best_s, math.inf if latency_s is None else latency_s))


class TrialBudget:
    """Divides trials among the chosen tasks. `left` is what the run's budget has left besides the trials in flight.

    A search that looks `ahead` doesn't wait for a task's trials in flight before it asks which task is next. So these
    count as if they had ended without a gain, or one task would get all that is looked ahead.

    `rivals` are pairs of tasks that compute the same by different algorithms, both ways round. Only the faster one counts in the network,
    so a task that is behind gets no more trials.
    """

    def __init__(
        self,
        weights: Sequence[int],
        chosen: Sequence[int],
        options: Options,
        *,
        ahead: bool = False,
        rivals: Mapping[int, int] | None = None,
    ) -> None:
        self.progress = [TaskProgress(weight, self._plateau(options)) for weight in weights]
        self.chosen = list(chosen)
        self._options = options
        self._ahead = ahead
        self._rivals = rivals or {}
        self._last = -1

    @staticmethod
    def _plateau(options: Options, best_s: float = math.inf) -> Plateau:
        return Plateau(options.plateau_percent, options.plateau_trials, best_s)

    def add_recorded(self, task: int, latency_s: float | None) -> None:
        """Count a trial of an earlier process. Plateaus start anew: whoever resumes a run wants more of every task."""
        progress = self.progress[task]
        progress.add(latency_s)
        progress.plateau = self._plateau(self._options, progress.best_s)

    def add_trial(self, task: int, latency_s: float | None) -> bool:
        """Count a trial that has ended, and return whether its task has just reached its plateau."""
        progress = self.progress[task]
        before = progress.plateau.reached
        progress.in_flight -= 1
        progress.add(latency_s)
        progress.plateau.add(latency_s)
        return progress.plateau.reached and not before

    def preferred(self, task: int) -> tuple[int, int] | None:
        """The task and its rival, the faster one first; None if it has none, or neither was measured."""
        if (rival := self._rivals.get(task)) is None:
            return None
        first, second = sorted((task, rival), key=lambda one: (self.progress[one].best_s, one))
        return (first, second) if self.progress[first].measured else None

    @property
    def in_flight(self) -> int:
        """Candidates of all tasks that haven't ended yet."""
        return sum(progress.in_flight for progress in self.progress)

    def next_task(self, left: int) -> int | None:
        """The task to tune next; None if no task may have more trials.

        A task whose first candidates are in flight doesn't count as unmeasured, so others go first.
        """
        tunable = self._tunable(left)
        unmeasured = [task for task in tunable if self._is_unmeasured(task)]
        due = [task for task in unmeasured if self._is_due(task, scarce=left <= len(unmeasured))]
        measured = [task for task in tunable if self.progress[task].measured]
        if due or not measured:
            return min(due or unmeasured or tunable, key=lambda task: self._tried(self.progress[task]), default=None)
        round_robin = self._options.task_scheduler == "round-robin"
        self._last = self._next_in_turn(measured) if round_robin else self._most_promising(measured)
        return self._last

    def batch_size(self, task: int, left: int) -> int:
        """How many candidates the task's next batch may have. Each unmeasured task keeps its share of what is left."""
        unmeasured = [other for other in self._tunable(left) if self._is_unmeasured(other)]
        share = left // len(unmeasured) if task in unmeasured else left - len(unmeasured)
        return min(self._full_batch(task, left), self._left_for(task, left), max(1, share))

    def _full_batch(self, task: int, left: int) -> int:
        """A task without a latency begins with its part of the first pass. If that failed, its trials double batch by batch.

        One with a rival begins with enough to be compared: a few of a later batch would cost a whole search.
        """
        progress, batch = self.progress[task], self._options.trials_per_batch
        if progress.measured:
            return batch
        total = left + self.in_flight + sum(other.trials for other in self.progress)
        first = self._options.first_pass(total, len(self.chosen))
        return min(batch, max(first, FIRST_TRIALS if task in self._rivals else 1, self._tried(progress)))

    def _is_behind(self, task: int) -> bool:
        if (rival := self._rivals.get(task)) is None or not self.progress[rival].measured:
            return False
        own, trials = self.progress[task], self.progress[task].trials
        limit_s = self.progress[rival].best_s * (1 + BEHIND_TRIALS / max(1, trials))
        return trials >= FIRST_TRIALS and own.best_s > limit_s

    def any_tunable(self, left: int) -> bool:
        """Whether `next_task` would name a task. Unlike that, this takes no turn of round-robin."""
        return bool(self._tunable(left))

    @property
    def on_plateau(self) -> bool:
        """Whether any task has reached its plateau."""
        return any(self.progress[task].plateau.reached for task in self.chosen)

    def _tunable(self, left: int) -> list[int]:
        return [
            task
            for task in self.chosen
            if self._left_for(task, left)
            and not self.progress[task].exhausted
            and not self.progress[task].plateau.reached
            and not self._is_behind(task)
        ]

    def _left_for(self, task: int, left: int) -> int:
        limit = self._options.max_trials_per_task
        progress = self.progress[task]
        return left if limit is None else max(0, min(left, limit - progress.trials - progress.in_flight))

    def _is_unmeasured(self, task: int) -> bool:
        return not self.progress[task].measured and not self.progress[task].in_flight

    def _is_due(self, task: int, *, scarce: bool) -> bool:
        """Whether an unmeasured task goes before measured ones.

        It does until it has had an equal share of all trials. Without its latency there is no estimate, but a task
        that never builds must not use up the budget of the others. If the trials are `scarce`, there being no more of
        them than unmeasured tasks, only unmeasured tasks get any.
        """
        trials = self.progress[task].trials
        total = sum(self.progress[other].trials for other in self.chosen)
        return scarce or trials == 0 or trials <= total / len(self.chosen)

    def _tried(self, progress: TaskProgress) -> int:
        return progress.trials + (progress.in_flight if self._ahead else 0)

    def _next_in_turn(self, tasks: list[int]) -> int:
        return next((task for task in tasks if task > self._last), tasks[0])

    def _most_promising(self, tasks: list[int]) -> int:
        return max(tasks, key=self._gradient)

    def _gradient(self, task: int) -> float:
        """Expected gain of a batch in seconds of total latency, from the recent gain and TVM's optimistic 1/n estimate.

        A task that is slower than its rival must make up for that first.
        """
        progress = self.progress[task]
        window = WINDOW * self._options.trials_per_batch
        before_s = progress.best_history_s[-1 - window] if progress.trials > window else math.inf
        recent_gain = (before_s - progress.best_s) / WINDOW if before_s < math.inf else 0.0
        batches = self._tried(progress) / self._options.trials_per_batch
        lag = max(0.0, progress.best_s - self.progress[self._rivals.get(task, task)].best_s)
        return (ALPHA * recent_gain + (1 - ALPHA) * progress.best_s / batches - lag) * progress.weight
