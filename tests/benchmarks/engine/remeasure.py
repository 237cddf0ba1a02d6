"""Measures records side by side: `python -m tests.benchmarks.engine.remeasure` answers `Remeasure` with `Remeasured`.

Latencies from different processes and times can't be compared to within a few percent. Here each record is built once, then
all are measured in turn, round after round, in one process; a record's latency is the median of its rounds.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from tuning.engines.measuring.arguments import RANDOM_FILL, allocated
from tuning.engines.oneshot import serving
from tuning.engines.targets import intrinsics
from tuning.engines.wire.question import Question

from .threads import use_cores


class Remeasure(Question, frozen=True, kw_only=True):
    target: dict[str, Any]
    records: list[str]
    """As in `TrialMeasured.record`."""
    rounds: int
    number: int
    min_repeat_ms: int


class Remeasured(msgspec.Struct, tag="remeasured", frozen=True):
    rounds: list[list[float]]
    """For each round, the seconds that one execution of each record took."""

    def latencies_s(self) -> list[float]:
        """The median of each record's rounds."""
        return [median(each) for each in zip(*self.rounds, strict=True)]


def main() -> None:
    serving.serve(Remeasure, _answer, "The records can't be measured")


def _answer(question: Remeasure, pipe: serving.Pipe) -> None:
    """Measure with as many threads as the target has cores."""
    use_cores(question.target)
    intrinsics.load(str(question.target["kind"]))
    pipe.send(Remeasured(_measured(question)))


def _measured(question: Remeasure) -> list[list[float]]:
    import tvm
    from tvm.s_tir import meta_schedule as ms
    from tvm.s_tir.meta_schedule.runner.local_runner import default_run_evaluator

    device = tvm.cpu(0)
    config = ms.runner.EvaluatorConfig(question.number, 1, question.min_repeat_ms)
    built = [_built(text, tvm.target.Target(question.target)) for text in question.records]
    arguments = [allocated(tvm.get_global_func(RANDOM_FILL), device, args_info) for _, args_info in built]
    return [
        [
            float(default_run_evaluator(module, device, config, given)[0])
            for (module, _), given in zip(built, arguments, strict=True)
        ]
        for _ in range(question.rounds)
    ]


def _built(text: str, target: Any) -> tuple[Any, list[Any]]:
    """The record's function, built from LLVM's text as in a run, and the arguments that it takes."""
    import tvm
    from tvm.s_tir import meta_schedule as ms
    from tvm.s_tir.meta_schedule.builder.local_builder import default_build

    workload, record = json.loads(text)
    candidate = ms.database.TuningRecord.from_json(
        record, ms.database.Workload.from_json(workload)
    ).as_measure_candidate()
    args_info = [[str(a), str(b), [int(c) for c in d]] for a, b, d in (info.as_json() for info in candidate.args_info)]
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "built.ll"))
        default_build(candidate.sch.mod, target, None).write_to_file(path, "ll")
        return tvm.runtime.load_module(path), args_info


if __name__ == "__main__":
    main()
