"""TVM's own loop with our task scheduler and a fake builder and runner."""

from __future__ import annotations

from typing import Any

import pytest

from tuning.engines.meta_schedule.trial_budget import TrialBudget
from tuning.engines.wire.protocol import Options

pytestmark = [pytest.mark.tvm, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.
BATCH = 4


class Trials:
    """The part of `trials.Trials` that the scheduler uses."""

    def __init__(self, total: int) -> None:
        self.budget = TrialBudget([1, 1], [0, 1], Options(trials_per_batch=BATCH))
        self.left = total
        self.picked: list[int] = []

    def next_task(self) -> int | None:
        task = self.budget.next_task(self.left)
        if task is not None:
            self.picked.append(task)
        return task

    def measure(self) -> list[float] | None:
        """The first batch of task 0 fails."""
        task = self.picked[-1]
        progress = self.budget.progress[task]
        progress.in_flight += 1
        latency = None if task == 0 and progress.trials < BATCH else 1e-3 / (progress.trials + 1)
        self.budget.add_trial(task, latency)
        self.left -= 1
        return None if latency is None else [latency]


def tune(trials: Trials, sizes: tuple[int, ...] = (16, 32)) -> None:
    import tvm
    from tvm import te
    from tvm.ir.utils import derived_object
    from tvm.s_tir import meta_schedule as ms
    from tvm.s_tir.meta_schedule.runner.local_runner import LocalRunnerFuture

    from tuning.engines.meta_schedule.scheduler import NO_LIMIT, Scheduler
    from tuning.engines.targets import intrinsics

    intrinsics.load("llvm")  # TVM would load those of all targets, which takes 8 s of CPU.

    @derived_object
    class Builder(ms.builder.PyBuilder):  # type: ignore[misc]
        def build(self, build_inputs: Any) -> list[Any]:
            return [ms.builder.BuilderResult("", None) for _ in build_inputs]

    @derived_object
    class Runner(ms.runner.PyRunner):  # type: ignore[misc]
        def run(self, runner_inputs: Any) -> list[Any]:
            outcomes = [trials.measure() for _ in runner_inputs]
            return [LocalRunnerFuture(res=one) if one else LocalRunnerFuture(error_message="no") for one in outcomes]

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

    Scheduler(trials).tune(  # type: ignore[arg-type]
        [context(size) for size in sizes],
        [1.0] * len(sizes),
        NO_LIMIT,
        NO_LIMIT,
        BATCH,
        Builder(),
        Runner(),
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
