"""TVM's task scheduler, with the next task chosen by the run's trial budget."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Sequence
from typing import Any

from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from .trials import Trials

NO_TASK = -1
PAUSE_S = 0.01
"""Between two looks at whether a trial has ended."""
NO_LIMIT = 2**30
"""For TVM's own limits on trials, which can't grow while it tunes. Our scheduler ends the loop instead."""

TASK = re.compile(r"(?<=\bTask #)\d+")
ROW = re.compile(r"^ *\d+(?= \|)", re.MULTILINE)
"""A task's number in TVM's table."""


class RunsNumbers(logging.Filter):
    """Has TVM, which knows only the chosen tasks and counts these, print their numbers in the run."""

    def __init__(self, chosen: Sequence[int]) -> None:
        super().__init__()
        self._numbers = {str(position): str(task) for position, task in enumerate(chosen)}

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg = TASK.sub(self._number, str(record.msg))
        if "Weighted Latency (us)" in record.msg:
            record.msg = ROW.sub(self._number, record.msg)
        return True

    def _number(self, found: re.Match[str]) -> str:
        return self._numbers.get(found[0].strip(), found[0]).rjust(len(found[0]))


def print_numbers_of_the_run(chosen: Sequence[int]) -> None:
    """For TVM's task scheduler, and for the log of each task once TVM has opened it."""
    tasks = [name for name in logging.root.manager.loggerDict if name.startswith(f"{ms.logging.__name__}.task_")]
    for name in (ms.task_scheduler.task_scheduler.__name__, *tasks):
        logging.getLogger(name).addFilter(RunsNumbers(chosen))


@derived_object
class Scheduler(ms.task_scheduler.PyTaskScheduler):  # type: ignore[misc]
    """In TVM's methods a task is its position among the chosen ones."""

    def __init__(self, trials: Trials, most_in_flight: int) -> None:
        """While `most_in_flight` candidates haven't ended, nothing is searched: it would be with a model that has learned from few of them."""
        super().__init__()
        self._trials = trials
        self._most_in_flight = most_in_flight
        self._running: list[int] = []
        """Tasks with a batch that wasn't joined."""

    def next_task_id(self) -> int:
        """The next task, once its last batch was joined; -1 ends the run."""
        chosen = self._trials.budget.chosen
        while True:
            self._join_ended()
            if not self._running or self._trials.in_flight < self._most_in_flight:
                task = self._trials.next_task()
                position = None if task is None else chosen.index(task)
                if position is not None and position not in self._running:
                    self._running.append(position)
                    return position
                if not self._running:
                    return NO_TASK
            # The results of running measurements may change which task is next, and even whether there is one.
            self._wait_for_any()

    def _join_ended(self) -> None:
        """Have TVM learn from the batches that have ended."""
        inner = self._outer()
        for nth in self._running:
            inner.touch_task(nth)
        self._running = [one for one in self._running if inner.tasks_[one].runner_futures is not None]

    def _wait_for_any(self) -> None:
        """Until a trial ends, of whichever batch: that which began first may have a candidate that takes a minute to build."""
        in_flight, batches = self._trials.in_flight, [self._outer().tasks_[one].runner_futures for one in self._running]
        with self._trials.stopwatch.doing("wait"):
            while self._trials.in_flight == in_flight and not any(all(map(_is_done, batch)) for batch in batches):
                time.sleep(PAUSE_S)


def _is_done(future: Any) -> bool:
    return bool(future.done())
