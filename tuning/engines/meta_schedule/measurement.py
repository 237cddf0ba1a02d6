"""TVM's builder and runner interfaces over our own, so that each trial is reported as soon as it ends.

TVM reports whole batches only, and to callbacks that don't know when a trial ended.
"""

from __future__ import annotations

import time
import traceback
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import tvm
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.runner.local_runner import LocalRunnerFuture

from tuning.engines.measuring.arguments import described
from tuning.engines.measuring.beside import BuildsBeside
from tuning.engines.measuring.local import LocalBuilder
from tuning.engines.measuring.outcomes import Failure, Runner, Timing
from tuning.engines.wire.errors import RunRefused

from .rounds.ranking import NOT_BUILT
from .rounds.stopwatch import Stopwatch
from .search import Batch, Search
from .trust.built import Built
from .trust.reference import Reference

BEING_BUILT = "being built"
"""TVM asks for a path where there is none yet."""


@dataclass(frozen=True)
class Background:
    """Building and measuring on threads, while TVM searches for other tasks."""

    threads: int
    """That measure."""
    wait: bool = False
    """The search waits for each batch after all."""


@derived_object
class TrialBuilder(ms.builder.PyBuilder):  # type: ignore[misc]
    """Builds a batch. A candidate that fails to build ends its trial."""

    def __init__(self, search: Search, builder: LocalBuilder, background: Background | None = None) -> None:
        super().__init__()
        self._search = search
        self._builder = builder
        self._beside = BuildsBeside(builder) if background and not background.wait else None

    def build(self, build_inputs: Any) -> list[Any]:
        """A result for each input. With background threads, these tell where it will be; without, all have ended."""
        trials = self._search.trials
        trials.report_phase("building", self._search.batch.task)
        with trials.stopwatch.doing("build"):
            mods = [tvm.ir.save_json(build_input.mod) for build_input in build_inputs]
        return self._begin(mods, self._beside) if self._beside else self._build(mods)

    def _begin(self, mods: list[str], beside: BuildsBeside) -> list[Any]:
        search, batch = self._search, self._search.batch
        took = partial(search.trials.stopwatch.built_beside, batch.times)
        with search.trials.stopwatch.doing("wait"):
            batch.builds = dict(enumerate(beside.build(mods, str(search.target), took)))
        batch.built = list(batch.builds)
        return [ms.builder.BuilderResult(BEING_BUILT, None) for _ in mods]

    def _build(self, mods: list[str]) -> list[Any]:
        search, batch = self._search, self._search.batch
        outcomes: dict[int, Path | Failure] = {}
        with search.trials.stopwatch.doing("build"):
            for index, outcome in self._builder.build(mods, str(search.target)):
                outcomes[index] = outcome
                if isinstance(outcome, Failure):
                    search.end_trial(batch, index, outcome)
        results = [outcomes[index] for index in range(len(mods))]
        batch.built = [index for index, outcome in enumerate(results) if isinstance(outcome, Path)]
        return [
            ms.builder.BuilderResult(None, outcome.text)
            if isinstance(outcome, Failure)
            else ms.builder.BuilderResult(str(outcome), None)
            for outcome in results
        ]


@derived_object
class BackgroundResult(ms.runner.PyRunnerFuture):  # type: ignore[misc]
    """A measurement that may still be running, or waiting for its device."""

    def __init__(self, outcome: Future[Timing | Failure], stopwatch: Stopwatch) -> None:
        super().__init__()
        self._outcome = outcome
        self._stopwatch = stopwatch

    def done(self) -> bool:
        return self._outcome.done()

    def result(self) -> Any:
        """Wait for the result."""
        with self._stopwatch.doing("wait"):
            return _finished(self._outcome.result()).result()


@derived_object
class TrialRunner(ms.runner.PyRunner):  # type: ignore[misc]
    """Measures what was built, and reports each trial when it ends.

    Measures on the search's own thread, one candidate after another, unless `background` threads are given.
    """

    def __init__(
        self, search: Search, runner: Runner, background: Background | None, reference: Reference | None
    ) -> None:
        super().__init__()
        self._reference = reference
        self._search = search
        self._runner = runner
        self._wait = background is not None and background.wait
        self._threads = ThreadPoolExecutor(background.threads, "measure") if background else None

    def run(self, runner_inputs: Any) -> list[Any]:
        """A future for each input; without background threads these are finished."""
        batch, stopwatch = self._search.batch, self._search.trials.stopwatch
        if runner_inputs:
            self._search.trials.report_phase("measuring", batch.task)
        inputs = zip(batch.built, runner_inputs, strict=True)
        if self._threads is None:
            with stopwatch.doing("measure"):
                return [
                    _finished(self._measure_now(batch, index, self._built(one, batch, index))) for index, one in inputs
                ]
        outcomes = [
            self._once_built(self._threads, batch, index, self._built(one, batch, index)) for index, one in inputs
        ]
        if self._wait:
            with stopwatch.doing("wait"):
                futures.wait(outcomes)
        return [BackgroundResult(outcome, stopwatch) for outcome in outcomes]

    def _built(self, runner_input: Any, batch: Batch, index: int) -> Built:
        arguments, cold_bytes = described(batch.candidates[index]), self._search.trials.cold_bytes(batch.task)
        return Built(Path(runner_input.artifact_path), str(runner_input.device_type), arguments, cold_bytes)

    def _once_built(
        self, threads: ThreadPoolExecutor, batch: Batch, index: int, built: Built
    ) -> Future[Timing | Failure]:
        """Measured on one of the threads, once it is built: what was built first is measured first."""
        build = batch.builds.get(index)
        if build is None:
            return threads.submit(self._measure_in_background, batch, index, built)
        measured: Future[Timing | Failure] = Future()

        def measure() -> None:
            measured.set_result(self._measure_in_background(batch, index, built))

        build.add_done_callback(lambda _: threads.submit(measure))
        return measured

    def _measure_reference(self) -> None:
        """On the thread that measures. What background threads do isn't the search's time."""
        if self._reference is None or not self._reference.is_due:
            return
        stopwatch = self._search.trials.stopwatch
        with nullcontext() if self._threads else stopwatch.doing("again"):
            self._reference.measure_if_due()

    def _measure(self, batch: Batch, index: int, built: Built) -> Timing | Failure:
        self._measure_reference()
        search, began = self._search, time.monotonic()
        spared = self._reference.spare(built) if self._reference else None
        limit_s = search.trials.race_limit_s(batch.task)
        outcome = self._runner.run(built.path, built.device, built.args, limit_s, built.cold_bytes)
        beside_s = time.monotonic() - began if self._threads else 0.0
        trial = search.end_trial(batch, index, outcome, measure_s=beside_s)
        if self._reference:
            self._reference.consider(trial, spared, outcome)
        return outcome

    def _measure_now(self, *measurement: Any) -> Timing | Failure:
        """Measure on the search's thread. A stop waits for it."""
        with self._search.trials.measurement():
            return self._measure(*measurement)

    def _measure_in_background(self, batch: Batch, index: int, built: Built) -> Timing | Failure:
        """Measure on another thread. An error there ends the run at once, not when TVM asks for the result."""
        try:
            outcome = self._outcome(batch, index, built)
            self._measure_reference()  # Also now: all threads may have begun their trials together.
        except RunRefused as refused:
            self._search.trials.fail(str(refused))
        except Exception as error:  # noqa: BLE001  the supervisor must learn of any error
            traceback.print_exc()
            self._search.trials.fail(f"{type(error).__name__}: {error}")
        return outcome

    def _outcome(self, batch: Batch, index: int, built: Built) -> Timing | Failure:
        build = batch.builds.get(index)
        artifact = built.path if build is None else build.result()
        if isinstance(artifact, Failure):
            self._search.end_trial(batch, index, artifact)
            return artifact
        return self._measure(batch, index, replace(built, path=artifact))


def _finished(outcome: Timing | Failure) -> Any:
    if isinstance(outcome, Failure):
        return LocalRunnerFuture(error_message=outcome.text if outcome.was_built else NOT_BUILT + outcome.text)
    return LocalRunnerFuture(res=outcome.run_secs)
