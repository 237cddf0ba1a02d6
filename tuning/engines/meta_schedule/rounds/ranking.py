"""How well the cost model ranks candidates, judged by each batch before it learns from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from tuning.engines.meta_schedule.search import Search
from tuning.engines.meta_schedule.strategies import is_trained

FEWEST = 4
"""Measured candidates from which on a correlation is told."""
NOT_BUILT = "Not built. "
"""How TVM's result of a candidate begins that failed when it was built beside the search, where TVM's runner is the first to hear of it."""


def learn(search: Search, cost_model: Any, context: Any, candidates: list[Any], results: list[Any]) -> None:
    """Report how the cost model would have ranked the candidates, then have it learn from them. Takes TVM's objects."""
    trials = search.trials
    with trials.stopwatch.doing("learn"):
        latencies = [fmean(map(float, result.run_secs)) for result in results if result.run_secs]
        if len(latencies) < FEWEST or not is_trained(cost_model):
            cost_model.update(context, candidates, results)
            return
        with _extracted_once(cost_model):
            predicted = zip(cost_model.predict(context, candidates), results, strict=True)
            scores = [float(score) for score, result in predicted if result.run_secs]
            correlation = rank_correlation(scores, [-seconds for seconds in latencies])
            trials.report_ranking(search.task_by_name[str(context.task_name)], correlation, scores, latencies)
            cost_model.update(context, candidates, results)


@contextmanager
def _extracted_once(cost_model: Any) -> Iterator[None]:
    """Have TVM's XGBModel extract the features of the same candidates only once: that is most of what its answer costs."""
    extractor = cost_model.extractor
    features: list[Any] = []

    def extract_from(context: Any, candidates: Any) -> Any:
        if not features:
            features.extend(extractor.extract_from(context, candidates))
        return features

    cost_model.extractor = SimpleNamespace(extract_from=extract_from)
    try:
        yield
    finally:
        cost_model.extractor = extractor


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Spearman's, from -1 to 1; None where either has only equal values."""
    ranks = [_ranks(np.asarray(values)) for values in (one, other)]
    if any(np.ptp(values) == 0 for values in ranks):
        return None
    return float(np.corrcoef(np.stack(ranks))[0, 1])


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Positions in order; equal values share the mean of theirs."""
    _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(sizes)
    means: NDArray[np.float64] = ends - (sizes - 1) / 2
    return means[group]


@derived_object
class Learn(ms.measure_callback.PyMeasureCallback):  # type: ignore[misc]
    """In place of TVM's UpdateCostModel, which doesn't ask the model first."""

    def __init__(self, search: Search, cost_model: Any) -> None:
        super().__init__()
        self._search = search
        self._cost_model = cost_model

    def apply(
        self,
        task_scheduler: Any,
        task_id: int,
        measure_candidates: Any,
        builder_results: Any,
        runner_results: Any,
    ) -> None:
        """Learn from the candidates that were built, as TVM does."""
        rows = zip(measure_candidates, builder_results, runner_results, strict=True)
        built = [(candidate, result) for candidate, build, result in rows if _was_built(build, result)]
        context = task_scheduler.tasks_[task_id].ctx
        learn(
            self._search,
            self._cost_model,
            context,
            [candidate for candidate, _ in built],
            [result for _, result in built],
        )


def _was_built(build: Any, result: Any) -> bool:
    return build.error_msg is None and not str(result.error_msg or "").startswith(NOT_BUILT)
