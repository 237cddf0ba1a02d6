"""TVM's task scheduler, which asks the allotment for the next task."""

from __future__ import annotations

from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from .trials import Trials

NO_TASK = -1
NO_LIMIT = 2**30
"""For TVM's own limits of trials, which can't grow while it tunes: the scheduler ends the loop."""


@derived_object
class Scheduler(ms.task_scheduler.PyTaskScheduler):  # type: ignore[misc]
    """Numbers tasks by their place among the chosen ones, as TVM does."""

    def __init__(self, trials: Trials) -> None:
        super().__init__()
        self._trials = trials

    def next_task_id(self) -> int:
        """The next task, whose last batch was joined; -1 ends the run."""
        tvms, chosen = self._outer(), self._trials.allotment.chosen
        for place in range(len(chosen)):
            tvms.touch_task(place)
        while True:
            task = self._trials.next_task()
            waiting = [place for place in range(len(chosen)) if tvms.tasks_[place].runner_futures is not None]
            if task is not None and chosen.index(task) not in waiting:
                return chosen.index(task)
            if task is None and not waiting:
                return NO_TASK
            # What the measurements under way say may change who is next, even whether anybody is.
            tvms.join_running_task(waiting[0] if task is None else chosen.index(task))
