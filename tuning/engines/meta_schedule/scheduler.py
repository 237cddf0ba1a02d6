"""TVM's task scheduler, with the next task chosen by the run's trial budget."""

from __future__ import annotations

from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from .trials import Trials

NO_TASK = -1
NO_LIMIT = 2**30
"""For TVM's own limits on trials, which can't grow while it tunes. Our scheduler ends the loop instead."""


@derived_object
class Scheduler(ms.task_scheduler.PyTaskScheduler):  # type: ignore[misc]
    """Numbers tasks as TVM does, by their position among the chosen ones."""

    def __init__(self, trials: Trials) -> None:
        super().__init__()
        self._trials = trials

    def next_task_id(self) -> int:
        """The next task, once its last batch was joined; -1 ends the run."""
        inner, chosen = self._outer(), self._trials.budget.chosen
        for position in range(len(chosen)):
            inner.touch_task(position)
        while True:
            task = self._trials.next_task()
            running = [position for position in range(len(chosen)) if inner.tasks_[position].runner_futures is not None]
            if task is not None and chosen.index(task) not in running:
                return chosen.index(task)
            if task is None and not running:
                return NO_TASK
            # The results of running measurements may change which task is next, and even whether there is one.
            inner.join_running_task(running[0] if task is None else chosen.index(task))
