"""Latencies of any candidate by a model of earlier measurements, which contention doesn't spoil and which cost next to nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import tvm
import zstandard
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms

from tuning.engines.targets import intrinsics
from tuning.engines.wire.protocol import Candidate, Measured

LEAST_SCORE = 0.01
"""The model's scores are throughputs against the best one. Below this, it guesses."""
LEAST_RECORDS = 64


class Modelled:
    """TVM's cost model, trained with records of one workload. What a search with the same model can learn of it, it learns fast."""

    def __init__(self, work_dirs: Sequence[Path]) -> None:
        """Raises `ValueError` if there are too few records."""
        intrinsics.load("llvm")
        records = [one for folder in work_dirs for one in records_of(folder)]
        if len(records) < LEAST_RECORDS:
            raise ValueError(f"{len(records)} valid records are too few for a model: {', '.join(map(str, work_dirs))}")
        self._best_s = min(map(seconds, records))
        self._context = ms.TuneContext(mod=records[0].workload.mod, target=records[0].target, num_threads=1)
        self._model = ms.cost_model.XGBModel(num_warmup_samples=0, num_tuning_cores=1)
        results = [ms.runner.RunnerResult([float(each) for each in one.run_secs], None) for one in records]
        self._model.update(self._context, [one.as_measure_candidate() for one in records], results)
        self._asked: set[str] = set()

    def __len__(self) -> int:
        return len(self._asked)

    def answer(self, candidate: Candidate) -> Measured:
        """The answer for the candidate."""
        self._asked.add(hashlib.sha256(candidate.module).hexdigest())
        return Measured(id=candidate.id, machine="model", run_secs=self.again([candidate]), synthetic=True)

    def again(self, candidates: Sequence[Candidate]) -> list[float]:
        """The latency of each: the same as before."""
        modules = [tvm.ir.load_json(zstandard.decompress(one.module).decode()) for one in candidates]
        scores = self._model.predict(self._context, [ms.MeasureCandidate(Schedule(one), []) for one in modules])
        return [self._best_s / max(float(score), LEAST_SCORE) for score in scores]


def records_of(work_dir: Path) -> list[Any]:
    """The valid ones."""
    known = ms.database.JSONDatabase(work_dir=str(work_dir)).get_all_tuning_records()
    return [one for one in known if one.run_secs and seconds(one) < 1e9]


def seconds(record: Any) -> float:
    return fmean(float(each) for each in record.run_secs)
