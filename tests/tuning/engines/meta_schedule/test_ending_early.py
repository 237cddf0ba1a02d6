from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.tuning.engines.running import Engine, latencies, options, start
from tuning.engines.wire import protocol
from tuning.engines.wire.protocol import Extend, Failed, Finished, NetworkSpec, Plateaued, TasksExtracted, TrialMeasured

pytestmark = pytest.mark.tvm


def test_one_trial_per_task_measures_each_task(tmp_path: Path) -> None:
    given = start(tmp_path / "work", network=NetworkSpec("mlp"), options=options(trials_per_batch=16), trials_budget=2)
    with Engine(given, tmp_path / "console") as engine:
        assert engine.to_the_end() == Finished("budget")
    assert [trial.task for trial in engine.trials] == [0, 1]


def test_it_ends_at_its_time_limit(tmp_path: Path) -> None:
    given = start(tmp_path / "work", trials_budget=100_000, elapsed_s=100.0, time_limit_s=112.0)
    with Engine(given, tmp_path / "console") as engine:
        assert engine.to_the_end() == Finished("time_limit")
    assert len(engine.trials) == len(latencies(tmp_path / "work")), "no trial is lost"


def test_it_continues_with_more_time_and_trials(tmp_path: Path) -> None:
    given = start(tmp_path / "work", trials_budget=6, time_limit_s=3600.0)
    with Engine(given, tmp_path / "console") as engine:
        engine.until(TrialMeasured)
        engine.write(protocol.encode(Extend(trials_budget=11, time_limit_s=None)))
        assert engine.to_the_end() == Finished("budget")
    assert len(engine.trials) == len(latencies(tmp_path / "work")) == 11


def test_an_extension_may_come_before_the_tasks_are_known(tmp_path: Path) -> None:
    with Engine(start(tmp_path / "work", trials_budget=2), tmp_path / "console") as engine:
        engine.write(protocol.encode(Extend(trials_budget=3, time_limit_s=None)))
        assert engine.to_the_end() == Finished("budget")
    assert len(engine.trials) == 3


def test_it_ends_when_every_task_is_on_its_plateau(tmp_path: Path) -> None:
    steady = options(plateau_trials=4, plateau_percent=99.0, trials_per_batch=2)
    given = start(tmp_path / "work", options=steady, trials_budget=10_000)
    with Engine(given, tmp_path / "console") as engine:
        assert engine.to_the_end() == Finished("plateau")
    assert engine.seen.count(Plateaued(0)) == 1
    assert len(engine.trials) < 40


def test_it_tunes_only_the_chosen_tasks(tmp_path: Path) -> None:
    given = start(tmp_path / "work", network=NetworkSpec("mlp"), options=options(tasks=[1]), trials_budget=5)
    with Engine(given, tmp_path / "console") as engine:
        assert engine.to_the_end() == Finished("budget")
    assert [trial.task for trial in engine.trials] == [1] * 5
    (tasks,) = (event.tasks for event in engine.seen if isinstance(event, TasksExtracted))
    assert [task.chosen for task in tasks] == [False, True], "the others are reported too"
    _assert_numbered(engine.console.read_text(), only=1)
    (log,) = (log for log in (tmp_path / "work" / "logs").glob("*.task_?_*") if log.stat().st_size)
    assert ".task_1_" in log.name
    _assert_numbered(log.read_text(), only=1)


def _assert_numbered(printed: str, only: int) -> None:
    """TVM alone would count the chosen tasks."""
    assert {int(number) for number in re.findall(r"Task #(\d+)", printed)} == {only}
    assert {int(number) for number in re.findall(r"^ *(\d+) \| +fused_", printed, re.MULTILINE)} <= {only}


def test_it_refuses_unknown_tasks(tmp_path: Path) -> None:
    given = start(tmp_path / "work", network=NetworkSpec("mlp"), options=options(tasks=[0, 7, 9]))
    with Engine(given, tmp_path / "console") as engine:
        failed = engine.to_the_end()
    assert failed == Failed("mlp has no task 7, 9: its 2 are numbered from 0.", "tasks")
