"""TVM's own loop with our task scheduler and a fake builder and runner."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from itertools import count
from typing import Any

import pytest

from tuning.engines.meta_schedule.trial_budget import TrialBudget
from tuning.engines.wire.options.meta_schedule import Options

pytestmark = [pytest.mark.tvm, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.
BATCH = 4


class Stopwatch:
    """Counts how often the scheduler waits."""

    waits = 0

    def doing(self, what: str) -> AbstractContextManager[None]:
        assert what == "wait"
        self.waits += 1
        return nullcontext()


class Trials:
    """The part of `trials.Trials` that the scheduler uses. Without a device, each batch is measured when it is asked for."""

    def __init__(self, total: int, tasks: int = 2, **options: Any) -> None:
        self.budget = TrialBudget([1] * tasks, range(tasks), Options(trials_per_batch=BATCH, **options), ahead=True)
        self.left = total
        self.stopwatch = Stopwatch()
        self.picked: list[int] = []
        self.ended: list[int] = []
        """The task of each trial."""

    @property
    def in_flight(self) -> int:
        return self.budget.in_flight

    def next_task(self) -> int | None:
        task = self.budget.next_task(self.left)
        if task is not None:
            self.picked.append(task)
        return task

    def begin(self) -> int:
        """Begin a trial of the task that was picked last."""
        self.budget.progress[self.picked[-1]].in_flight += 1
        self.left -= 1
        return self.picked[-1]

    def end(self, task: int) -> list[float] | None:
        """The first batch of task 0 fails."""
        trials = self.budget.progress[task].trials
        latency = None if task == 0 and trials < BATCH else 1e-3 / (trials + 1)
        self.budget.add_trial(task, latency)
        self.ended.append(task)
        return None if latency is None else [latency]


def device(trials: Trials, *, later: bool, held_up: int | None) -> Any:
    """TVM's runner. It measures at once, or, if `later`, one batch whenever the scheduler waits, in the order in which they began.

    The last candidate of the batch that is `held_up` takes until all other trials have ended.
    """
    from tvm.ir.utils import derived_object
    from tvm.s_tir import meta_schedule as ms
    from tvm.s_tir.meta_schedule.runner.local_runner import LocalRunnerFuture

    batches = count()

    def measured(task: int) -> Any:
        latencies = trials.end(task)
        return LocalRunnerFuture(res=latencies) if latencies else LocalRunnerFuture(error_message="no")

    @derived_object
    class Later(ms.runner.PyRunnerFuture):  # type: ignore[misc]
        def __init__(self, task: int, batch: int, *, is_slow: bool) -> None:
            super().__init__()
            self._task = task
            self._batch = batch
            self._is_slow = is_slow
            self._measured: Any = None

        def done(self) -> bool:
            others = trials.left or trials.in_flight > 1
            if self._measured is None and self._batch < trials.stopwatch.waits and not (self._is_slow and others):
                self._measured = measured(self._task)
            return self._measured is not None

        def result(self) -> Any:
            assert self._measured is not None, "the scheduler waits for a batch that hasn't ended"
            return self._measured.result()

    @derived_object
    class Runner(ms.runner.PyRunner):  # type: ignore[misc]
        def run(self, runner_inputs: Any) -> list[Any]:
            begun = [trials.begin() for _ in runner_inputs]
            batch, last = next(batches), len(begun) - 1
            return [
                Later(task, batch, is_slow=(batch, nth) == (held_up, last)) if later else measured(task)
                for nth, task in enumerate(begun)
            ]

    return Runner()


def tune(trials: Trials, *, most_in_flight: int | None = None, held_up: int | None = None) -> None:
    """Batches are measured later if some may be in flight, and otherwise at once."""
    import tvm
    from tvm import te
    from tvm.ir.utils import derived_object
    from tvm.s_tir import meta_schedule as ms

    from tuning.engines.meta_schedule.scheduler import NO_LIMIT, Scheduler
    from tuning.engines.targets import intrinsics

    intrinsics.load("llvm")  # TVM would load those of all targets, which takes 8 s of CPU.

    @derived_object
    class Builder(ms.builder.PyBuilder):  # type: ignore[misc]
        def build(self, build_inputs: Any) -> list[Any]:
            return [ms.builder.BuilderResult("", None) for _ in build_inputs]

    def context(size: int) -> Any:
        given = te.placeholder((size, size), name="a")
        doubled = te.compute((size, size), lambda i, j: given[i, j] * 2.0, name="b")
        return ms.TuneContext(
            mod=te.create_prim_func([given, doubled]),
            target=tvm.target.Target({"kind": "llvm", "num-cores": 1}),
            space_generator="post-order-apply",
            search_strategy="replay-trace",
            task_name=f"task{size}",
            rand_state=1,
            num_threads=1,
        )

    tasks = len(trials.budget.chosen)
    scheduler: Any = Scheduler(trials, most_in_flight or BATCH)  # type: ignore[arg-type]
    scheduler.tune(
        [context(16 << task) for task in range(tasks)],
        [1.0] * tasks,
        NO_LIMIT,
        NO_LIMIT,
        BATCH,
        Builder(),
        device(trials, later=most_in_flight is not None, held_up=held_up),
        [],
        ms.database.MemoryDatabase(),
        ms.cost_model.RandomModel(),
    )


def test_a_task_whose_batch_failed_is_picked_again_until_the_budget_is_spent() -> None:
    trials = Trials(total=6 * BATCH)
    tune(trials)
    assert trials.left == 0
    assert trials.picked == [0, 1] * 3
    assert all(progress.measured for progress in trials.budget.progress)


def test_while_enough_is_in_flight_nothing_is_searched() -> None:
    trials = Trials(total=6 * BATCH, tasks=3, first_trials=BATCH)
    seen: list[tuple[int, int]] = []
    pick = trials.next_task

    def next_task() -> int | None:
        seen.append((len(trials.ended), trials.in_flight))
        return pick()

    trials.next_task = next_task  # type: ignore[method-assign]
    tune(trials, most_in_flight=2 * BATCH)
    assert seen[:3] == [(0, 0), (0, BATCH), (BATCH, BATCH)], "the third batch is searched once the first has ended"
    assert max(in_flight for _, in_flight in seen) == BATCH
    assert trials.picked[:3] == [0, 1, 2]
    assert trials.ended[: 2 * BATCH] == [0] * BATCH + [1] * BATCH
    assert (trials.left, trials.in_flight, len(trials.ended)) == (0, 0, 6 * BATCH)


def test_one_slow_candidate_doesnt_hold_up_other_tasks() -> None:
    trials = Trials(total=6 * BATCH, tasks=3, first_trials=BATCH)
    tune(trials, most_in_flight=2 * BATCH, held_up=0)
    assert trials.ended[-1] == 0, "it ends last"
    assert trials.picked[:3] == [0, 1, 2]
    assert (trials.left, trials.in_flight, len(trials.ended)) == (0, 0, 6 * BATCH)
