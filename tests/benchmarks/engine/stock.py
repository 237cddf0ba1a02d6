"""Stock TVM for the benchmark: `tune_tasks` with `LocalBuilder` and `LocalRunner`, speaking the engines' protocol.

`python -m tests.benchmarks.engine.stock --events-fd FD` reads a `Start` and ends when the budget is spent. Only the clock is
ours: TVM reports whole batches, so its runner gets one input at a time to tell when each measurement ended.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from tuning.engines import networks
from tuning.engines.events import EventWriter
from tuning.engines.meta_schedule.controls import ControlReader
from tuning.engines.networks import extraction
from tuning.engines.targets.resolving import cores, resolve
from tuning.engines.wire.options.meta_schedule import Options
from tuning.engines.wire.protocol import Finished, Start, TasksExtracted, TrialMeasured
from tuning.logs import meta_schedule


def main() -> None:
    """Runs one tuning."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.engine.stock")
    parser.add_argument("--events-fd", type=int, required=True, help="an open pipe that events are written to")
    events = EventWriter(parser.parse_args().events_fd)
    controls = ControlReader(on_stop=lambda: events.exit_with(Finished("stopped")))
    if start := controls.read_start():
        controls.watch()
        _tune(start, events, controls.started_at)
        events.exit_with(Finished("budget"))


def _tune(start: Start, events: EventWriter, began: float) -> None:
    options, resolved, work_dir = start.options, resolve(start.target), Path(start.work_dir)
    work_dir.mkdir(parents=True, exist_ok=True)
    target = Target(resolved.target)
    extracted = extraction.extract(extraction.legalized(networks.build(start.network).mod, target), target)
    infos = [extraction.describe(index, task) for index, task in enumerate(extracted)]
    events.send(TasksExtracted(resolved.target, infos))
    tasks, weights = ms.relax_integration.extracted_tasks_to_tune_contexts(
        extracted, start.work_dir, num_threads=cores(), seed=options.seed
    )
    runner = TimedRunner(_runner(options), began)
    reporter = Reporter({info.name: info.index for info in infos}, runner, events, work_dir)
    ms.tune.tune_tasks(
        tasks=tasks,
        task_weights=weights,
        work_dir=start.work_dir,
        max_trials_global=start.trials_budget,
        num_trials_per_iter=options.trials_per_batch,
        builder=ms.builder.LocalBuilder(timeout_sec=options.build_timeout_s),
        runner=runner,
        measure_callbacks=[*ms.measure_callback.MeasureCallback.create("default"), reporter],
        task_scheduler=ms.task_scheduler.GradientBased(seed=ms.utils.fork_seed(options.seed, 1)[0]),
    )


def _runner(options: Options) -> Any:
    config = ms.runner.EvaluatorConfig(options.number, options.repeat, options.min_repeat_ms)
    return ms.runner.LocalRunner(timeout_sec=options.run_timeout_s, evaluator_config=config)


@derived_object
class TimedRunner(ms.runner.PyRunner):  # type: ignore[misc]
    """Passes inputs to TVM's runner one at a time; it would measure them one after the other anyway."""

    def __init__(self, inner: Any, began: float) -> None:
        super().__init__()
        self._inner = inner
        self._began = began
        self._ended: dict[str, float] = {}

    def run(self, runner_inputs: Any) -> list[Any]:
        """Returns a future for each input."""
        return [self._timed(given) for given in runner_inputs]

    def ended(self, artifact: str) -> float:
        """When the measurement of what was built there ended, in seconds since the process got its `Start`."""
        return self._ended.pop(artifact)

    def now(self) -> float:
        """Seconds since the process got its `Start`."""
        return time.monotonic() - self._began

    def _timed(self, given: Any) -> Any:
        (future,) = self._inner.run([given])
        self._ended[str(given.artifact_path)] = self.now()
        return future


@derived_object
class Reporter(ms.measure_callback.PyMeasureCallback):  # type: ignore[misc]
    """Sends the trials of a batch as events when TVM reports it: those of its first pass over the tasks once that is over, so after other batches."""

    def __init__(self, index: dict[str, int], runner: TimedRunner, events: EventWriter, work_dir: Path) -> None:
        super().__init__()
        self._index = index
        self._runner = runner
        self._events = events
        self._work_dir = work_dir
        self._best: dict[int, float] = {}

    def apply(
        self,
        task_scheduler: Any,
        task_id: int,
        measure_candidates: Any,
        builder_results: Any,
        runner_results: Any,
    ) -> None:
        """Sends an event for each candidate; TVM has already written their records."""
        task = self._index[str(task_scheduler.tasks_[task_id].ctx.task_name)]
        texts = meta_schedule.last_records(self._work_dir, len(measure_candidates))
        moments = ended(builder_results, self._runner)
        for measured, text, at_s in zip(runner_results, texts, moments, strict=True):
            self._events.send(self._event(task, measured, text, at_s))

    def _event(self, task: int, measured: Any, text: str, at_s: float) -> TrialMeasured:
        if measured.error_msg is not None:
            return TrialMeasured(task, None, at_s, error_kind="run", error=str(measured.error_msg))
        latency_s = fmean(float(seconds) for seconds in measured.run_secs)
        improves = latency_s < self._best.get(task, float("inf"))
        if improves:
            self._best[task] = latency_s
        return TrialMeasured(task, latency_s, at_s, record=text if improves else None)


def ended(builds: Iterable[Any], runner: Any) -> list[float]:
    """When each trial of a batch ended, by its build. One whose build failed had ended when its batch was measured, long before TVM reports it."""
    measured = [None if built.error_msg else runner.ended(str(built.artifact_path)) for built in builds]
    first = min((at_s for at_s in measured if at_s is not None), default=runner.now())
    return [first if at_s is None else at_s for at_s in measured]


if __name__ == "__main__":
    main()
