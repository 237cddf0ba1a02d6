"""TVM's own tuning loop, with search strategy, builder and runner wrapped so that every trial is ours to report.

TVM's loop asks a strategy for a batch, sends it to the builder, then what was built to the runner. It reports
only whole batches, and to callbacks that don't know when a trial ended.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import tvm
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.runner.local_runner import LocalRunnerFuture

from tuning.engines.measuring import local, remote
from tuning.engines.measuring.local import Failure
from tuning.engines.measuring.workers import Timing
from tuning.engines.targets.resolving import cores
from tuning.engines.wire.errors import RunRefused
from tuning.engines.wire.protocol import Options, Remote
from tuning.logs import meta_schedule

from . import evolution
from .scheduler import NO_LIMIT, Scheduler
from .trials import Trials
from .warm_start import Past


@dataclass(frozen=True)
class Setting:
    """What a run is given besides its tasks."""

    options: Options
    work_dir: Path
    target: Any
    context: ForkServerContext
    remote: Remote | None = None


@dataclass
class Batch:
    """The candidates at work, which TVM's builder and runner interfaces don't name."""

    task: int = 0
    candidates: list[Any] = field(default_factory=list)
    built: list[int] = field(default_factory=list)
    """Indices of the candidates whose build went well, in the order in which TVM sends them to the runner."""


class Search:
    """What strategy, builder and runner share."""

    def __init__(self, trials: Trials, index: dict[str, int], target: Any, past: Past) -> None:
        self.trials = trials
        self.index = index
        """Task by name."""
        self.target = target
        self.batch = Batch()
        """What is being built or sent to the runner; others may be waiting for their measurement."""
        self.past = past

    def next_batch(self, task: int, generate: Callable[[], Any]) -> list[Any] | None:
        """Candidates of the task, not more than its share; None when nothing is left to try.

        What an earlier run found best comes first and alone: its latency must be this run's own.
        """
        share, first = self.trials.share(task), self.past.first(task)
        if first is None:
            self.trials.phase("searching", task)
        candidates: Any = generate() if first is None else [first]
        if candidates is None:
            self.trials.allotment.standings[task].exhausted = True
            return None
        self.batch = Batch(task, list(candidates)[:share])
        self.trials.handed_out(task, len(self.batch.candidates))
        return self.batch.candidates


@derived_object
class Strategy(ms.search_strategy.PySearchStrategy):  # type: ignore[misc]
    """One of TVM's search strategies, within the run's budget."""

    def __init__(self, inner: Any, search: Search) -> None:
        super().__init__()
        self._inner = inner
        self._search = search
        self._task = 0
        self._mod: Any = None
        self._database: Any = None

    def _initialize_with_tune_context(self, context: Any) -> None:
        self._task = self._search.index[str(context.task_name)]
        self._mod = context.mod
        self._inner._initialize_with_tune_context(context)  # noqa: SLF001  TVM's name for what strategies override

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: Any,
        database: Any = None,
        cost_model: Any = None,
    ) -> None:
        """The task's design spaces are known."""
        self._database = database
        self._inner.pre_tuning(max_trials, num_trials_per_iter, design_spaces, database, cost_model)
        following = [task for task in self._search.trials.allotment.chosen if task > self._task]
        if following:
            self._search.trials.phase("design_spaces", following[0])

    def post_tuning(self) -> None:
        """The task is done with."""
        self._inner.post_tuning()

    def generate_measure_candidates(self) -> Any:
        """A batch of candidates, or None when the task shall have no more."""
        return self._search.next_batch(self._task, self._inner.generate_measure_candidates)

    def notify_runner_results(self, measure_candidates: Any, results: Any) -> None:
        """The batch was measured."""
        self._remember(measure_candidates, results)
        self._inner.notify_runner_results(measure_candidates, results)

    def _remember(self, measure_candidates: Any, results: Any) -> None:
        """Commit to the database that the search reads; only here, on the thread that searches."""
        workload = self._database.commit_workload(self._mod)
        for candidate, result in zip(measure_candidates, results, strict=True):
            run_secs = [meta_schedule.FAILED_RUN_SECS] if result.run_secs is None else result.run_secs
            self._database.commit_tuning_record(
                ms.database.TuningRecord(
                    candidate.sch.trace, workload, run_secs, self._search.target, candidate.args_info
                )
            )

    def clone(self) -> Any:
        """One for another task."""
        return Strategy(self._inner.clone(), self._search)


@derived_object
class TrialBuilder(ms.builder.PyBuilder):  # type: ignore[misc]
    """Builds a batch; a candidate that can't be built is a trial that ended."""

    def __init__(self, search: Search, builder: local.Builder) -> None:
        super().__init__()
        self._search = search
        self._builder = builder

    def build(self, build_inputs: Any) -> list[Any]:
        """A result for each input, once all have one."""
        search, batch = self._search, self._search.batch
        search.trials.phase("building", batch.task)
        outcomes: dict[int, Path | Failure] = {}
        mods = [tvm.ir.save_json(given.mod) for given in build_inputs]
        for index, outcome in self._builder.build(mods, str(search.target)):
            outcomes[index] = outcome
            if isinstance(outcome, Failure):
                search.trials.ended(batch.task, batch.candidates[index], outcome, search.target)
        results = [outcomes[index] for index in range(len(mods))]
        batch.built = [index for index, outcome in enumerate(results) if isinstance(outcome, Path)]
        return [
            ms.builder.BuilderResult(None, outcome.text)
            if isinstance(outcome, Failure)
            else ms.builder.BuilderResult(str(outcome), None)
            for outcome in results
        ]


@dataclass(frozen=True)
class Lanes:
    """Measurements beside the search."""

    number: int
    """At a time, at most."""
    wait: bool = False
    """The search waits for each batch all the same."""


@derived_object
class LateResult(ms.runner.PyRunnerFuture):  # type: ignore[misc]
    """A measurement that may be under way still, or wait for its device."""

    def __init__(self, outcome: Future[Timing | Failure]) -> None:
        super().__init__()
        self._outcome = outcome

    def done(self) -> bool:
        """Whether TVM can have the result without waiting."""
        return self._outcome.done()

    def result(self) -> Any:
        """The result; waits for it."""
        return _finished(self._outcome.result()).result()


@derived_object
class TrialRunner(ms.runner.PyRunner):  # type: ignore[misc]
    """Measures what was built, and reports each trial when it ends.

    With lanes many are measured at a time, in threads, while TVM searches and builds for other tasks.
    """

    def __init__(self, search: Search, runner: local.Measuring, lanes: Lanes | None) -> None:
        super().__init__()
        self._search = search
        self._runner = runner
        self._wait = lanes is not None and lanes.wait
        self._threads = ThreadPoolExecutor(lanes.number, "lane") if lanes else None

    def run(self, runner_inputs: Any) -> list[Any]:
        """A future for each input; finished ones without lanes."""
        batch = self._search.batch
        if runner_inputs:
            self._search.trials.phase("measuring", batch.task)
        given = zip(batch.built, runner_inputs, strict=True)
        if self._threads is None:
            return [_finished(self._measured_now(batch, index, *_job(one))) for index, one in given]
        late = [self._threads.submit(self._measured_late, batch, index, *_job(one)) for index, one in given]
        if self._wait:
            futures.wait(late)
        return [LateResult(one) for one in late]

    def _measured(self, batch: Batch, index: int, path: Path, device: str, args: list[Any]) -> Timing | Failure:
        search = self._search
        outcome = self._runner.run(path, device, args, search.trials.slow_s(batch.task))
        search.trials.ended(batch.task, batch.candidates[index], outcome, search.target)
        return outcome

    def _measured_now(self, *job: Any) -> Timing | Failure:
        """In the search's own thread; a stop waits for it."""
        with self._search.trials.measurement():
            return self._measured(*job)

    def _measured_late(self, *job: Any) -> Timing | Failure:
        """In a lane's thread; what goes wrong there ends the run at once, not when TVM asks for the result."""
        try:
            return self._measured(*job)
        except RunRefused as impossible:
            self._search.trials.fail(str(impossible))
        except Exception as error:  # noqa: BLE001  the supervisor must hear of whatever it was
            traceback.print_exc()
            self._search.trials.fail(f"{type(error).__name__}: {error}")


def _job(given: Any) -> tuple[Path, str, list[Any]]:
    """Artifact, kind of device and arguments, as workers take them."""
    args_info = [[str(a), str(b), [int(c) for c in d]] for a, b, d in (info.as_json() for info in given.args_info)]
    return Path(given.artifact_path), str(given.device_type), args_info


def _finished(outcome: Timing | Failure) -> Any:
    if isinstance(outcome, Failure):
        return LocalRunnerFuture(error_message=outcome.text)
    return LocalRunnerFuture(res=outcome.run_secs)


def tune(extracted: list[Any], search: Search, setting: Setting) -> None:
    """TVM's `tune_tasks` over the chosen tasks until the run's budget is used up or nothing is left to try."""
    options, work_dir = setting.options, str(setting.work_dir)
    seed = _seed(options, search.trials.done)
    chosen = search.trials.allotment.chosen
    strategy = Strategy(evolution.strategy(options, search.trials.left // len(chosen)), search)
    tasks, weights = ms.relax_integration.extracted_tasks_to_tune_contexts(
        [extracted[task] for task in chosen], work_dir, strategy=strategy, num_threads=cores(), seed=seed
    )
    runner, lanes = _runner(setting, search.trials)
    cost_model = evolution.cost_model(options, seed)
    search.past.teach(cost_model, dict(zip(chosen, tasks, strict=True)))
    search.trials.phase("design_spaces", chosen[0])
    ms.tune.tune_tasks(
        tasks=tasks,
        task_weights=weights,
        work_dir=work_dir,
        max_trials_global=NO_LIMIT,
        max_trials_per_task=NO_LIMIT,
        num_trials_per_iter=options.trials_per_batch,
        builder=TrialBuilder(search, _builder(setting)),
        runner=TrialRunner(search, runner, lanes),
        database=search.past.database,
        cost_model=cost_model,
        # No AddToDatabase: each trial is committed when it ends. No RemoveBuildArtifact: the runner removes them.
        measure_callbacks=[ms.measure_callback.UpdateCostModel()],
        task_scheduler=Scheduler(search.trials),
    )


def _seed(options: Options, done: int) -> int | None:
    """A resumed run that drew the same numbers again would measure the same candidates again."""
    return None if options.seed is None else (options.seed + done) % 2**31


def _suffix(setting: Setting) -> str:
    """The form in which candidates are handed over, by the suffix of its file."""
    if setting.remote is not None:
        return remote.suffix(setting.target)
    # LLVM's text is compiled when it is loaded: no linker, none of its time, and the same code.
    return ".ll" if _on_cpu(setting.target) else ".so"


def _builder(setting: Setting) -> local.Builder:
    return local.Builder(
        setting.context,
        setting.work_dir / local.ARTIFACTS,
        max_workers=setting.options.build_workers or cores(),
        timeout_s=setting.options.build_timeout_s,
        suffix=_suffix(setting),
    )


def _runner(setting: Setting, trials: Trials) -> tuple[local.Measuring, Lanes | None]:
    """The runner, and the lanes in which it measures; None when the search's own thread does."""
    options, threads = setting.options, setting.target.attrs.get("num-cores")
    config = (options.number, options.repeat, options.min_repeat_ms)
    if setting.remote:
        away = remote.RemoteRunner(
            setting.context, setting.remote, config=config, timeout_s=options.run_timeout_s, give_up=trials.fail
        )
        return away, Lanes(remote.LANES, wait=options.overlap == "off")
    on_cpu = _on_cpu(setting.target)
    runner = local.Runner(
        setting.context,
        config=config,
        timeout_s=options.run_timeout_s,
        threads=min(int(threads), cores()) if threads and on_cpu else None,
    )
    overlap = options.overlap == "on" or (options.overlap == "auto" and not on_cpu)
    return runner, Lanes(1) if overlap else None


def _on_cpu(target: Any) -> bool:
    return str(target.kind.name) == "llvm"
