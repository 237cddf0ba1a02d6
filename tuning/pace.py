"""In which rounds a run goes on, by which it is told for how long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import msgspec

from tuning.engines.wire.engines import ENGINES, META_SCHEDULE
from tuning.engines.wire.options.meta_schedule import Options
from tuning.forecast import ROUNDS

LARGEST_ROUND = 64
"""Trials in which others' tuners, and runs on many machines, search at least once."""


class Pace(NamedTuple):
    """What decides how many trials the rounds of a run have."""

    engine: str
    options: Mapping[str, Any]
    budget: int
    """0 for a run without one."""
    tasks: int
    """Those that are tuned, without the spare ones."""
    spare: int
    """How many more compute the same as one of these by a slower algorithm."""
    is_ours: bool
    has_pool: bool

    @property
    def round_size(self) -> int:
        """Trials that share a search, their builds and their measurements, once the first pass is over.

        On many machines batches are larger. Other engines give no task more at a time than its share of the budget.
        """
        given = self.options.get("trials_per_batch")
        size = given if isinstance(given, int) and given > 0 else LARGEST_ROUND
        if self.has_pool:
            size = max(size, min(LARGEST_ROUND, self.budget // 10))
        share = self.budget if self.engine == META_SCHEDULE else self.budget // max(1, self.tasks)
        return max(1, min(size, share))

    @property
    def first_pass(self) -> int:
        """Trials of the first pass, whose rounds are smaller; 0 if all rounds are of one size. With a warm start it takes fewer."""
        rivals = min(self.spare, self.tasks)
        options = self._options() if self.is_ours and self.budget and self.tasks + rivals > 1 else None
        if options is None or options.first_pass(self.budget, self.tasks + rivals) >= self.round_size:
            return 0
        return options.first_trials_of(self.budget, self.tasks, rivals)

    def rounds_ended_at(self, done: int) -> range:
        """Of so many trials, the numbers of those with which the latest rounds ended, and the first pass before them; 0 for the run's beginning.

        Rounds of the first pass don't count: they have a search for few trials, so they tell nothing of those that follow.
        """
        size, begin = self.round_size, self.first_pass
        if done < begin:
            return range(0)
        last = (done - begin) // size
        return range(begin + max(0, last - ROUNDS) * size, begin + last * size + 1, size)

    def confirming_s(self, elapsed_s: float) -> float:
        """Seconds that it will probably take to confirm the best records of a run that was tuned for so long; 0 if they aren't confirmed."""
        options = self._options() if self.options.get("confirm") and not self.has_pool else None
        return options.confirming_s(self.tasks, elapsed_s) if options else 0.0

    def _options(self) -> Options | None:
        """MetaSchedule's; None for another engine, and if another version stored them and they aren't valid in this one."""
        if self.engine != META_SCHEDULE:
            return None
        try:
            return cast("Options", ENGINES[self.engine].options_of(self.options))
        except msgspec.ValidationError:
            return None
