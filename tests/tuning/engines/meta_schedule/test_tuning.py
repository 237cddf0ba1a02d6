from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests import models
from tests.tuning.engines.running import COLD, Engine, latencies, options, start
from tuning.engines.wire.protocol import VERSION, Finished, Hello, ModelFile, NetworkSpec, Phase, TasksExtracted

pytestmark = pytest.mark.tvm


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """A run that has ended. Its files are `work` and `console` in the same folder."""
    folder = tmp_path_factory.mktemp("tuned")
    given = start(folder / "work", options=options(strategy="evolutionary", trials_per_batch=8), keep_best=2)
    with Engine(given, folder / "console", COLD) as engine:
        engine.to_the_end()
    return engine


def test_it_tunes_from_hello_to_finished(tuned: Engine) -> None:
    hello, tasks = tuned.seen[0], tuned.seen[3]
    assert isinstance(hello, Hello)
    assert hello.version == VERSION
    assert {"apache-tvm", "apache-tvm-ffi", "python"} < set(hello.versions)
    assert isinstance(tasks, TasksExtracted)
    assert tasks.target["kind"] == "llvm"
    assert tasks.target["mcpu"]
    assert [(task.name, task.weight, task.flop) for task in tasks.tasks] == [("matmul", 1, 2.0 * 64**3)]
    assert [(arg.shape, arg.dtype) for arg in tasks.tasks[0].args] == [([64, 64], "float32")] * 3
    assert "T.prim_func" in str(tasks.tasks[0].tensorir)
    phases = [event.name for event in tuned.seen if isinstance(event, Phase)]
    assert phases == ["loading", "extracting", "design_spaces", "searching", "building", "measuring"]
    assert tuned.seen[-1] == Finished("budget")
    assert tuned.process.returncode == 0


def test_it_reports_each_trial_when_it_ends(tuned: Engine) -> None:
    moments = [trial.at_s or 0.0 for trial in tuned.trials]
    assert len(moments) == 8
    assert moments == sorted(set(moments)), "not all at once with their batch"
    written = latencies(tuned.console.parent / "work")
    assert [trial.latency_s for trial in tuned.trials] == pytest.approx(written, rel=1e-12)


@pytest.mark.filterwarnings("default")  # Warnings are TVM's own.
def test_its_records_are_self_contained(tuned: Engine) -> None:
    from tvm.s_tir.meta_schedule.database import TuningRecord, Workload

    best: list[float] = []
    for trial in tuned.trials:
        assert trial.latency_s is not None
        best = sorted([*best, trial.latency_s])[:2]
        assert (trial.record is not None) == (trial.latency_s in best)
        if trial.record:
            workload, record = json.loads(trial.record)
            read = TuningRecord.from_json(record, Workload.from_json(workload))
            assert [seconds.value for seconds in read.run_secs] == pytest.approx([trial.latency_s])
            assert read.as_measure_candidate().sch.mod


def test_its_console_log_is_readable(tuned: Engine) -> None:
    console = tuned.console.read_text()
    assert "Weighted Latency (us)" in console
    assert "[Task #0: matmul] Trial #8: GFLOPs: " in console
    assert "\x1b" not in console
    assert "Traceback" not in console
    assert "Warning" not in console


def test_it_leaves_tvms_logs_but_no_artifacts(tuned: Engine) -> None:
    work_dir = tuned.console.parent / "work"
    assert list((work_dir / "logs").glob("*task_0_matmul.log"))
    assert not (work_dir / "artifacts").exists()


@pytest.mark.parametrize(
    "changes", [{"task_scheduler": "round-robin"}, pytest.param({"cost_model": "random"}, marks=pytest.mark.rare)]
)
def test_it_spends_exactly_its_budget(changes: dict[str, str], tmp_path: Path) -> None:
    given = start(tmp_path / "work", network=NetworkSpec("mlp"), options=options(**changes), trials_budget=7)
    with Engine(given, tmp_path / "console") as engine:
        assert engine.to_the_end() == Finished("budget")
    assert len(engine.trials) == len(latencies(tmp_path / "work")) == 7
    assert [trial.task for trial in engine.trials][:2] == [0, 1], "every task is measured first"


def test_it_respects_the_limit_per_task(tmp_path: Path) -> None:
    given = start(
        tmp_path / "work", network=NetworkSpec("mlp"), options=options(max_trials_per_task=3), trials_budget=20
    )
    with Engine(given, tmp_path / "console") as engine:
        assert engine.to_the_end() == Finished("exhausted")
    assert sorted(trial.task for trial in engine.trials) == [0] * 3 + [1] * 3


def test_it_reports_failed_trials(tmp_path: Path) -> None:
    slow = options(min_repeat_ms=2000, run_timeout_s=0.05, trials_per_batch=2)
    with Engine(start(tmp_path / "work", options=slow, trials_budget=2), tmp_path / "console") as engine:
        assert engine.to_the_end() == Finished("budget")
    assert [(trial.error_kind, trial.latency_s) for trial in engine.trials] == [("run_timeout", None)] * 2
    assert engine.trials[0].error == "Took longer than 0.05 s to run, and was stopped."
    assert latencies(tmp_path / "work") == [None] * 2


def test_it_measures_embedding_lookups(tmp_path: Path) -> None:
    """Indices outside the table would crash the measurement."""
    words = [helper.make_node("Gather", ["table", "x"], ["y"])]
    model = models.onnx_model(words, {}, {"y": [1, 16, 64]}, table=np.ones((100, 64), "float32"))
    model.graph.input.append(helper.make_tensor_value_info("x", TensorProto.INT64, [1, 16]))
    path = tmp_path / "words.onnx"
    path.write_bytes(model.SerializeToString())
    given = start(tmp_path / "work", network=NetworkSpec("words", file=ModelFile("onnx", str(path), {})))
    with Engine(given, tmp_path / "console") as engine:
        assert engine.to_the_end() == Finished("budget")
    assert engine.trials
    assert not [trial.error for trial in engine.trials if trial.error]
