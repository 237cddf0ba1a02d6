from __future__ import annotations

import pytest

from tuning.engines.wire.protocol import VERSION, Extend, Finished, Hello, TasksExtracted, TrialMeasured, encode
from tuning.logs.lines import LineParser

from .legacy_running import TWO, Legacy

pytestmark = pytest.mark.tvm


def test_it_reports_each_trial_as_it_ends(legacy: Legacy) -> None:
    with legacy.run(legacy.start()) as engine:
        hello = engine.until(Hello)
        assert (hello.version, hello.engine) == (VERSION, legacy.engine)
        assert {"apache-tvm", "xgboost", "python"} <= set(hello.versions)
        extracted = engine.until(TasksExtracted)
        _check_tasks(legacy, extracted)
        for number in range(1, 5):
            engine.until(TrialMeasured)
            assert number <= len(legacy.lines()) <= number + 1, "line n is trial n, and the next isn't reported late"
        assert engine.to_the_end() == Finished("budget")
    assert sorted(trial.task for trial in engine.trials) == [*TWO[:1] * 2, *TWO[1:] * 2]
    assert [trial.latency_s for trial in engine.trials] == pytest.approx(legacy.latencies(), rel=1e-4)
    told = legacy.records.read_text().splitlines()
    assert [trial.record for trial in engine.trials] == [
        line if trial.latency_s else None for trial, line in zip(engine.trials, told, strict=True)
    ]
    moments = [trial.at_s or 0.0 for trial in engine.trials]
    assert moments == sorted(moments)
    assert len(set(moments)) == 4
    assert _hashes_in_log(legacy) == {extracted.tasks[index].workload_hash for index in TWO}


def _hashes_in_log(legacy: Legacy) -> set[str]:
    """Those that Tuneboard finds when the same log is imported."""
    parser = LineParser("records.json", legacy.engine)
    for line in legacy.records.read_bytes().splitlines(keepends=True):
        parser.parse_line(line)
    return {task.workload_hash for task in parser.tasks.values()}


def _check_tasks(legacy: Legacy, extracted: TasksExtracted) -> None:
    """The MLP has three dense layers, and for each AutoTVM has two templates."""
    tasks = extracted.tasks
    assert extracted.target == {"kind": "llvm"}
    assert [task.chosen for task in tasks] == [task.index in TWO for task in tasks]
    assert len({task.workload_hash for task in tasks}) == len(tasks)
    shapes = [arg.shape for arg in tasks[0].args]
    if legacy.engine == "auto_scheduler":
        assert [task.weight for task in tasks] == [1, 1, 1, 1]
        assert shapes == [[1, 784], [128, 784], [1, 128], [1, 128]]
        assert {task.space for task in tasks} == {None}, "auto_scheduler can't count its candidates"
    else:
        assert [task.name for task in tasks] == ["dense_nopack.x86", "dense_pack.x86"] * 3
        assert [task.weight for task in tasks] == [0, 1] * 3, (
            "a layer counts once, whatever the number of its templates"
        )
        assert shapes == [[1, 784], [128, 784]]
        assert all(task.space and task.space > 10 for task in tasks)


@pytest.mark.rare
def test_it_goes_on_when_it_is_extended(legacy: Legacy) -> None:
    with legacy.run(legacy.start(trials_budget=3)) as engine:
        engine.until(TrialMeasured)
        engine.write(b"[1]\n{}\nnonsense\n")  # Ignored.
        engine.write(encode(Extend(trials_budget=6, time_limit_s=None)))
        assert engine.to_the_end() == Finished("budget")
    assert len(engine.trials) == len(legacy.lines()) == 6


def test_it_ends_at_its_time_limit(autotvm: Legacy) -> None:
    with autotvm.run(autotvm.start(trials_budget=10_000, elapsed_s=5.0, time_limit_s=8.0)) as engine:
        assert engine.to_the_end() == Finished("time_limit")


def test_a_layer_counts_for_the_template_that_is_tuned(autotvm: Legacy) -> None:
    with autotvm.run(autotvm.start({"tasks": [0, 3]})) as engine:
        tasks = engine.until(TasksExtracted).tasks
    assert [task.weight for task in tasks] == [1, 0, 0, 1, 0, 1]
