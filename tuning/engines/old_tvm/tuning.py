"""Tunes AutoTVM's tasks: which tuner, what it knows already, and when a task has had enough."""

import logging
from typing import Any, Callable, Dict, Iterator, List, Set, Tuple

from tvm import autotvm

from . import autotvm_measuring
from .engine import Run
from .loading import in_one_line, xgboost_is_new
from .vta import builds
from .vta import measuring as vta_measuring

logger = logging.getLogger("tuneboard")
SEED_RECORDS = 500
"""Fewer records of other tasks don't help, says TVM."""
Pair = Tuple[Any, Any]
"""A `MeasureInput` and its `MeasureResult`."""


class TaskTuning:
    """Tunes one task at a time."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._options = run.start["options"]
        measuring = vta_measuring if builds.is_target(run.start["target"]) else autotvm_measuring
        self._runner = measuring.runner_of(run)
        self._measure_option = autotvm_measuring.measure_option(run, self._runner)
        self.on_plateau: Set[int] = set()
        """Tasks that stopped early."""

    def limit(self, task: int) -> int:
        """How many trials the task may have in all."""
        if task in self.on_plateau:
            return 0
        space = len(self._run.tasks[task].native.config_space)
        return min(space, self._options["max_trials_per_task"] or space)

    def tune(self, task: int, goal: int) -> None:
        """Give the task this many trials in all, unless it stops early or the budget ends."""
        progress = self._run.trials.tasks[task]
        self._run.trials.report_phase("searching", task)
        self._runner.index = task
        self._measure_known(task)
        if goal > progress.trials:
            self._tuner(task).tune(
                n_trial=goal - progress.trials,
                measure_option=self._measure_option,
                early_stopping=self._options["early_stopping"],
            )
        if progress.trials < goal:
            self.on_plateau.add(task)
            self._run.report("plateaued", task=task)
        self._log_share(task)

    def log_shares(self) -> None:
        """Say how much of each space was tried."""
        for task in self._run.chosen:
            self._log_share(task)

    def _log_share(self, task: int) -> None:
        one, tried = self._run.tasks[task], self._run.trials.tasks[task].trials
        space = len(one.native.config_space)
        logger.info(
            "[Task #%d: %s] %d of %d candidates tried (%.1f %%).",
            task,
            one.info["name"],
            tried,
            space,
            100 * tried / space,
        )

    def _measure_known(self, task: int) -> None:
        """Measure the best candidate of earlier runs, if this run has no trial of the task yet, so that its latency is the run's own."""
        if self._run.trials.tasks[task].trials:
            return
        for known, _ in self._known(task)[:1]:
            own = self._run.tasks[task].native
            candidate = autotvm.measure.MeasureInput(own.target, own, own.config_space.get(known.config.index))
            measure_batch = autotvm.measure.create_measure_batch(own, self._measure_option)
            measure_batch([candidate])

    def _tuner(self, task: int) -> Any:
        own = self._run.tasks[task].native
        done = list(self._done(task))
        tuner = TUNERS[self._options["tuner"]](own, self._options, done)
        if self._options["tuner"].startswith("xgb"):
            self._teach(tuner, task)
        return tuner

    def _teach(self, tuner: Any, task: int) -> None:
        known = self._known(task, measured=True)
        others = list(self._done_of_others(task)) if self._options["transfer"] else []
        if not known and not others:
            return
        least = 1 if known else SEED_RECORDS
        reason = f"TVM asks for {least}"
        try:
            tuner.load_history(known + others, least)
        except Exception as error:  # noqa: BLE001  what can't be learned is no reason not to tune
            reason = in_one_line(error)
        learned = "has learned" if tuner.cost_model.base_model else f"couldn't learn ({reason})"
        told = f"{len(known)} records of earlier runs and {len(others)} of other tasks with its template"
        logger.info(
            "[Task #%d: %s] The cost model %s from %s.", task, self._run.tasks[task].info["name"], learned, told
        )

    def _known(self, task: int, *, measured: bool = False) -> List[Pair]:
        """Records of earlier runs for the task, the fastest first; if `measured`, only those whose latencies this site measured."""
        known = [record for record in self._run.known if record["task"] == task]
        decoded = (autotvm.record.decode(record["text"]) for record in known if record["is_measured"] or not measured)
        space = len(self._run.tasks[task].native.config_space)
        return [pair for pair in decoded if pair[0].config.index < space]

    def _done(self, task: int) -> Iterator[Pair]:
        """This run's own trials of the task."""
        own = self._run.tasks[task].native
        for pair in self._recorded({self._run.tasks[task].workload}):
            # Those of a record know no FLOP.
            config = own.config_space.get(pair[0].config.index)
            yield autotvm.measure.MeasureInput(own.target, own, config), pair[1]

    def _done_of_others(self, task: int) -> Iterator[Pair]:
        """This run's trials of tasks with the same template: TVM learns from no others."""
        tasks = self._run.tasks
        name = tasks[task].native.name
        return self._recorded(
            {one.workload for index, one in enumerate(tasks) if index != task and one.native.name == name}
        )

    def _recorded(self, workloads: Set[str]) -> Iterator[Pair]:
        for line in self._run.records.lines():
            if line.workload in workloads:
                yield autotvm.record.decode(line.text)


def _xgb(loss_type: str) -> Callable[[Any, Dict[str, Any], List[Pair]], Any]:
    def make(task: Any, options: Dict[str, Any], done: List[Pair]) -> Any:
        tuner = autotvm.tuner.XGBTuner(
            task, loss_type=loss_type, feature_type=options["feature_type"], plan_size=options["plan_size"]
        )
        if done:
            tuner.update(*zip(*done))
        return tuner

    return make


def _ga(task: Any, options: Dict[str, Any], done: List[Pair]) -> Any:
    """What was tried is not tried again, and the best of it are the first elites."""
    from tvm.autotvm.tuner.model_based_tuner import knob2point, point2knob

    tuner = autotvm.tuner.GATuner(
        task,
        pop_size=options["ga_population"],
        elite_num=options["ga_elites"],
        mutation_prob=options["ga_mutation_prob"],
    )
    tried = {given.config.index for given, _ in done}
    tuner.genes = [gene for gene in tuner.genes if knob2point(gene, tuner.dims) not in tried]
    tuner.visited |= tried
    while len(tuner.genes) < tuner.pop_size and len(tuner.visited) < len(tuner.space):
        point = _untried(len(tuner.space), tuner.visited)
        tuner.visited.add(point)
        tuner.genes.append(point2knob(point, tuner.dims))
    tuner.pop_size = len(tuner.genes)
    tuner.elite_num = min(tuner.elite_num, tuner.pop_size)
    best = sorted(
        (pair for pair in done if pair[1].error_no == 0), key=lambda pair: sum(pair[1].costs) / len(pair[1].costs)
    )
    for given, result in best[: tuner.elite_num]:
        tuner.elites.append(point2knob(given.config.index, tuner.dims))
        tuner.elite_scores.append(task.flop * len(result.costs) / sum(result.costs))
    return tuner


def _untried(space: int, visited: Set[int]) -> int:
    import numpy as np

    point = int(np.random.randint(space))
    while point in visited:
        point = (point + 1) % space
    return point


def _by_index(name: str) -> Callable[[Any, Dict[str, Any], List[Pair]], Any]:
    """Random or grid search without what was tried."""
    stock = getattr(autotvm.tuner, name)

    def make(task: Any, _: Dict[str, Any], done: List[Pair]) -> Any:
        tried = {given.config.index for given, _ in done}

        class Untried(stock):  # type: ignore[misc, valid-type]
            def next_batch(self, batch_size: int) -> List[Any]:
                batch: List[Any] = []
                while len(batch) < batch_size and self.has_next():
                    batch += [config for config in super().next_batch(1) if config.index not in tried]
                return batch

        return Untried(task)

    return make


TUNERS = {
    "xgb": _xgb("reg"),
    "xgb_rank": _xgb("rank-binary" if xgboost_is_new() else "rank"),
    "ga": _ga,
    "random": _by_index("RandomTuner"),
    "gridsearch": _by_index("GridSearchTuner"),
}
"""Makes TVM's tuner for a task, options, and the trials that the task already had."""
