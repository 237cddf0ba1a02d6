"""Runs the engines of an old TVM under its interpreter, in place of a supervisor."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.tuning.engines.running import Engine
from tuning.engines.wire.legacy import RECORDS, LegacyEngine, LegacyStart, relay_spec
from tuning.engines.wire.options.legacy import OPTIONS
from tuning.engines.wire.protocol import NetworkSpec

FAST: dict[str, dict[str, Any]] = {
    "auto_scheduler": {
        "cost_model": "random",
        "trials_per_batch": 4,
        "evolutionary_search_population": 32,
        "evolutionary_search_num_iters": 1,
        "sample_init_min_population": 8,
    },
    "autotvm": {"tuner": "random"},
}
EVERYDAY = pytest.mark.parametrize(
    "legacy", ["autotvm", pytest.param("auto_scheduler", marks=pytest.mark.rare)], indirect=True
)
"""For what `tests/tuning/work/test_legacy_runs.py` tests every day with both engines, from the supervisor's side, and for what doesn't
depend on the engine."""
TWO = [1, 3]
"""Two tasks, which both engines find in the MLP."""


class Legacy(NamedTuple):
    """An engine of an old TVM, and where its files are."""

    python: str
    engine: LegacyEngine
    folder: Path

    @property
    def work_dir(self) -> Path:
        return self.folder / "work"

    @property
    def records(self) -> Path:
        return self.work_dir / RECORDS

    def start(self, options: Mapping[str, Any] | None = None, **changes: Any) -> LegacyStart:
        """A small run of two tasks of the MLP."""
        fast = {"seed": 1, "tasks": TWO, "min_repeat_ms": 10, **FAST[self.engine], **(options or {})}
        mlp = NetworkSpec("mlp")
        given: dict[str, Any] = {
            "engine": self.engine,
            "run_id": 1,
            "network": mlp,
            "relay": relay_spec(mlp),
            "target": {"kind": "llvm"},
            "options": OPTIONS[self.engine](**fast),
            "trials_budget": 4,
            "trials_done": 0,
            "elapsed_s": 0.0,
            "work_dir": str(self.work_dir),
        }
        return LegacyStart(**given | changes)

    def run(self, start: LegacyStart, **env: str) -> Engine:
        command = [self.python, "-m", f"tuning.engines.old_tvm.{self.engine}"]
        return Engine(start, self.folder / "console", command, os.environ | env)

    def lines(self) -> list[Any]:
        """The parsed record file."""
        return [json.loads(line) for line in self.records.read_text().splitlines()]

    def latencies(self) -> list[float | None]:
        """The latency of each trial in the record file; None if it failed."""
        results = [line["r"] if self.engine == "auto_scheduler" else line["result"] for line in self.lines()]
        return [None if error_no else sum(costs) / len(costs) for costs, error_no, *_ in results]

    def candidates(self) -> list[str]:
        """What distinguishes the candidates of the record file: task and schedule."""
        if self.engine == "auto_scheduler":
            return [json.dumps(line["i"]) for line in self.lines()]
        return [json.dumps([line["input"], line["config"]["index"]]) for line in self.lines()]

    def console(self) -> str:
        return (self.folder / "console").read_text()
