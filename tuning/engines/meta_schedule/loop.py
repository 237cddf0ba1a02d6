"""TVM's own tuning loop, `tune_tasks`, with our scheduler, builder and runner and its search strategy wrapped.

A run with a pool of machines has a loop of its own instead: `pooled`.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

from tvm.s_tir import meta_schedule as ms

from tuning.engines.measuring.devices import MAX_DEVICES
from tuning.engines.measuring.local import YIELDING, LocalBuilder, LocalRunner
from tuning.engines.measuring.outcomes import Runner
from tuning.engines.measuring.remote import RemoteRunner
from tuning.engines.measuring.sessions import artifact_suffix
from tuning.engines.targets.here import local_artifact_suffix, threads_to_measure
from tuning.engines.targets.resolving import cores
from tuning.engines.wire.options.meta_schedule import Options, longest_confirming_s
from tuning.engines.wire.protocol import ARTIFACTS, Remote
from tuning.engines.wire.protocol import Reference as Asked
from tuning.logs.meta_schedule import record_of

from . import pooled, strategies
from .measurement import Background, TrialBuilder, TrialRunner
from .rounds.ranking import Learn
from .scheduler import NO_LIMIT, Scheduler, print_numbers_of_the_run
from .search import Search, Strategy
from .spaces import begins_with_defaults, create_space
from .trials import Trials
from .trust.confirming import Build, Confirming
from .trust.rebuilding import rebuild
from .trust.reference import Reference

BATCHES_AHEAD = 2
"""So many are in flight besides what devices measure, where they are built and measured beside the search: one is searched while another is built."""
logger = logging.getLogger("tuneboard")


@dataclass(frozen=True)
class TuningConfig:
    """How and where to tune."""

    options: Options
    work_dir: Path
    target: Any
    context: ForkServerContext
    beside: bool
    """Whether the search goes on while candidates are built and measured."""
    remote: Remote | None = None
    out: pooled.CandidatesOut | None = None
    """Where candidates go in a run with a pool of machines."""
    reference: Asked | None = None
    """Which record is measured again every so often; None for none."""


def tune(extracted: list[Any], search: Search, config: TuningConfig) -> None:
    """Tune the chosen tasks until the run's budget is used up or no task may have more trials."""
    options, work_dir = config.options, str(config.work_dir)
    seed = _seed(options, search.trials.done)
    chosen = search.trials.budget.chosen
    inner = strategies.create_strategy(options, search.trials.left // len(chosen))
    cost_model = strategies.create_cost_model(options, seed)
    first = strategies.create_first_candidates(options, cost_model)
    strategy = Strategy(inner, search, first, defaults=begins_with_defaults(options, config.target))
    # Of all tasks, because TVM numbers their log files by their positions in this list.
    tasks, weights = ms.relax_integration.extracted_tasks_to_tune_contexts(
        extracted,
        work_dir,
        space=create_space(options, config.target),
        strategy=strategy,
        num_threads=cores(),
        seed=seed,
    )
    contexts = {task: tasks[task] for task in chosen}
    search.prior.train(cost_model, contexts)
    search.trials.report_phase("design_spaces", chosen[0])
    if config.out:
        pooled.tune(contexts, cost_model, search, config.out, options.trials_per_batch)
        search.tell_neighbours()
        return
    niceness = YIELDING if config.beside and config.remote is None else 0
    os.nice(niceness)  # What measures isn't forked from this process.
    builder = _builder(config, niceness)
    runner, background = _runner(config, search.trials)
    reference = _reference(config, search.trials, builder, runner)
    print_numbers_of_the_run(chosen)
    most_in_flight = BATCHES_AHEAD * options.trials_per_batch + (background.threads if background else 0)
    ms.tune.tune_tasks(
        tasks=list(contexts.values()),
        task_weights=[weights[task] for task in chosen],
        work_dir=work_dir,
        max_trials_global=NO_LIMIT,
        max_trials_per_task=NO_LIMIT,
        num_trials_per_iter=options.trials_per_batch,
        builder=TrialBuilder(search, builder, background),
        runner=TrialRunner(search, runner, background, reference),
        database=search.prior.database,
        cost_model=cost_model,
        # No AddToDatabase: each trial is committed when it ends. No RemoveBuildArtifact: the runner removes artifacts.
        measure_callbacks=[Learn(search, cost_model)],
        task_scheduler=Scheduler(search.trials, most_in_flight),
    )
    search.tell_neighbours()
    if search.trials.confirms:
        _confirm(extracted, search, config, builder, runner)


def _seed(options: Options, trials_done: int) -> int | None:
    """The run's seed, changed when it is resumed, because the same seed would draw the same candidates again."""
    return None if options.seed is None else (options.seed + trials_done) % 2**31


def _builder(config: TuningConfig, niceness: int) -> LocalBuilder:
    return LocalBuilder(
        config.context,
        config.work_dir / ARTIFACTS,
        max_workers=config.options.build_workers or cores(),
        timeout_s=config.options.build_timeout_s,
        suffix=_artifact_suffix(config),
        niceness=niceness,
    )


def _artifact_suffix(config: TuningConfig) -> str:
    if config.remote is not None:
        return artifact_suffix(config.target)
    return local_artifact_suffix(config.target)


def _runner(config: TuningConfig, trials: Trials) -> tuple[Runner, Background | None]:
    """The runner, and the threads that it measures on; None means the search's own."""
    options = config.options
    evaluator = (options.number, options.repeat, options.min_repeat_ms)
    if config.remote:
        remote = RemoteRunner(
            config.context, config.remote, config=evaluator, timeout_s=options.run_timeout_s, give_up=trials.fail
        )
        return remote, Background(MAX_DEVICES, wait=not config.beside)
    local = LocalRunner(
        config.context,
        config=evaluator,
        timeout_s=options.run_timeout_s,
        threads=threads_to_measure(config.target),
    )
    return local, Background(threads=1) if config.beside else None


def _reference(config: TuningConfig, trials: Trials, builder: LocalBuilder, runner: Runner) -> Reference | None:
    """The run's reference, built anew if an earlier process has chosen it."""
    if config.reference is None:
        return None
    reference = Reference(runner, config.reference, trials.report_reference)
    if trial := config.reference.trial:
        text = record_of(config.work_dir, trial)
        rebuilt = _rebuilder(config, trials, builder)([text] if text else [])
        reference.use(trial, next((built for _, built in rebuilt), None))
    return reference


def _rebuilder(config: TuningConfig, trials: Trials, builder: LocalBuilder) -> Build:
    """Builds records of the run, to be measured as cold as their trials were."""
    return lambda texts: rebuild(texts, [trials.cold_bytes_of(text) for text in texts], builder, config.target)


def _confirm(extracted: list[Any], search: Search, config: TuningConfig, builder: LocalBuilder, runner: Runner) -> None:
    """Measure the best records of each task again, beginning with those that matter most. What fails there doesn't fail the run."""
    trials = search.trials
    trials.end_with(trials.finish_reason())
    confirming = Confirming(
        build=_rebuilder(config, trials, builder),
        runner=runner,
        begin=lambda task: trials.report_phase("confirming", task),
        report=trials.report_confirmed,
    )
    try:
        best = {task: records for task, records in trials.best_records().items() if trials.counts(task)}
        order = sorted(best, key=lambda task: -best[task][0].latency_s * int(extracted[task].weight))
        trials.stopwatch.begin(None, trials.done)
        with trials.stopwatch.doing("again"):
            confirming.confirm({task: best[task] for task in order}, longest_confirming_s(trials.elapsed_s))
    except Exception:
        logger.exception("The best records couldn't be confirmed.")
