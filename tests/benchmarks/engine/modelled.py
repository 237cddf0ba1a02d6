"""Latencies of a network's candidates by a model of earlier measurements, so that they don't depend on what else the machine does."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import tvm
import zstandard
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms

from tests.benchmarks.fleet.modelled import LEAST_SCORE, records_of, seconds
from tuning.engines.targets import intrinsics
from tuning.engines.targets.resolving import cores
from tuning.engines.wire.protocol import Candidate, Measured


class NetworkModel:
    """Latencies of candidates of a network, by one cost model for all of its tasks."""

    def __init__(self, work_dirs: Sequence[Path]) -> None:
        intrinsics.load("llvm")
        records = sorted((one for folder in work_dirs for one in records_of(folder)), key=_workload)
        self._model = ms.cost_model.XGBModel(num_warmup_samples=0, num_tuning_cores=cores())
        self._best_s: dict[str, float] = {}
        for workload, group in groupby(records, key=_workload):
            ours = list(group)
            self._best_s[workload] = min(map(seconds, ours))
            self._context = ms.TuneContext(mod=ours[0].workload.mod, target=ours[0].target, num_threads=cores())
            results = [ms.runner.RunnerResult([float(each) for each in one.run_secs], None) for one in ours]
            self._model.update(self._context, [one.as_measure_candidate() for one in ours], results)

    def answers(self, candidates: Sequence[Candidate], workloads: Sequence[str]) -> list[Measured]:
        """What becomes of the candidates; `workloads` are structural hashes by task."""
        modules = [tvm.ir.load_json(zstandard.decompress(one.module).decode()) for one in candidates]
        scores = self._model.predict(self._context, [ms.MeasureCandidate(Schedule(one), []) for one in modules])
        # Scores are throughputs against the best of the task.
        return [
            Measured(
                id=one.id,
                machine="model",
                run_secs=[self._best_s[workloads[one.task]] / max(float(score), LEAST_SCORE)],
                synthetic=True,
            )
            for one, score in zip(candidates, scores, strict=True)
        ]


def _workload(record: Any) -> str:
    return str(ms.utils.shash2hex(record.workload.mod))
