"""Measures records side by side: `python -m tests.benchmarks.engine.remeasure` reads a `Rematch` and prints its `Results`.

Records that different processes measured at different times can't be compared to a few per cent. Here each is built once,
then all are measured in turn, round after round, in one process; a record's latency is the median of its rounds.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from tuning.engines.measuring.arguments import RANDOM_FILL, allocated
from tuning.engines.targets import intrinsics


class Rematch(msgspec.Struct, frozen=True):
    """What to measure, and how often."""

    target: dict[str, Any]
    records: list[str]
    """As in `TrialMeasured.record`."""
    rounds: int
    number: int
    min_repeat_ms: int


class Results(msgspec.Struct, frozen=True):
    """Seconds of one execution of each record, in each round."""

    rounds: list[list[float]]

    def latencies_s(self) -> list[float]:
        """The median of each record's rounds."""
        return [median(each) for each in zip(*self.rounds, strict=True)]


def main() -> None:
    """Measure, with as many threads as the target has cores."""
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=Rematch)
    os.environ["TVM_NUM_THREADS"] = str(asked.target.get("num-cores", os.cpu_count()))
    intrinsics.load(str(asked.target["kind"]))
    measured = _measured(asked)
    sys.stdout.flush()
    sys.stdout.buffer.write(msgspec.json.encode(Results(measured)) + b"\n")


def _measured(asked: Rematch) -> list[list[float]]:
    import tvm
    from tvm.s_tir import meta_schedule as ms
    from tvm.s_tir.meta_schedule.runner.local_runner import default_run_evaluator

    device = tvm.cpu(0)
    config = ms.runner.EvaluatorConfig(asked.number, 1, asked.min_repeat_ms)
    built = [_built(text, tvm.target.Target(asked.target)) for text in asked.records]
    arguments = [allocated(tvm.get_global_func(RANDOM_FILL), device, args_info) for _, args_info in built]
    return [
        [
            float(default_run_evaluator(module, device, config, given)[0])
            for (module, _), given in zip(built, arguments, strict=True)
        ]
        for _ in range(asked.rounds)
    ]


def _built(text: str, target: Any) -> tuple[Any, list[Any]]:
    """The record's function as it was measured, from LLVM's text, and the arguments that it takes."""
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
