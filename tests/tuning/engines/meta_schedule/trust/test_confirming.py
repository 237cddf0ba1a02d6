"""The best records of a run that has ended by itself are measured again in turn."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.tuning.engines.running import Engine, lines, options, start
from tuning.engines.events import EventWriter
from tuning.engines.measuring.outcomes import Failure, Timing
from tuning.engines.meta_schedule.trust.built import Built
from tuning.engines.meta_schedule.trust.confirming import Confirming
from tuning.engines.wire.options.meta_schedule import CONFIRM_ROUNDS as ROUNDS
from tuning.engines.wire.options.meta_schedule import longest_confirming_s
from tuning.engines.wire.protocol import (
    Confirmed,
    Finished,
    NetworkSpec,
    Phase,
    Pool,
    Remote,
    Round,
    TaskInfo,
    TrialMeasured,
)
from tuning.engines.wire.tracker import Address
from tuning.logs.meta_schedule import BestRecord


class Bench:
    """Builds records into files named by their texts, and measures these as long as it is told."""

    def __init__(self, folder: Path, **latencies: float) -> None:
        self.folder = folder
        self.latencies = latencies
        self.measured: list[str] = []
        self.begun: list[int] = []
        self.told: list[Confirmed] = []
        self.now = 0.0
        self.builds = count()

    def build(self, texts: Sequence[str]) -> Iterable[tuple[int, Built]]:
        for index, text in enumerate(texts):
            path = self.folder / f"{next(self.builds)}.ll"
            path.write_text(text)
            if text != "unbuildable":
                yield index, Built(path, "cpu", [])

    def run(
        self, path: Path, device_type: str, args_info: list[Any], limit_s: float | None, cold_bytes: int
    ) -> Timing | Failure:
        assert limit_s is None
        text = path.read_text()
        path.unlink()
        self.measured.append(text)
        self.now += 1.0
        return Timing([self.latencies[text]]) if text in self.latencies else Failure("run", "crashed")

    def confirm(self, best: dict[int, list[tuple[float, int, str]]], within_s: float = 1e9) -> None:
        confirming = Confirming(self.build, self, self.begun.append, self.told.append, lambda: self.now)
        confirming.confirm({task: [BestRecord(*one) for one in few] for task, few in best.items()}, within_s)


def test_records_are_measured_in_turn(tmp_path: Path) -> None:
    bench = Bench(tmp_path, a=2.0, b=1.5)
    bench.confirm({3: [(1.0, 7, "a"), (1.05, 4, "b")]})
    assert bench.measured == ["b", "a", "a", "b", "b", "a", "a", "b", "b", "a"]
    assert bench.told == [Confirmed(3, [4, 7], [[1.5] * ROUNDS, [2.0] * ROUNDS])]
    assert list(tmp_path.iterdir()) == []


def test_time_passes_before_the_first_one_is_measured(tmp_path: Path) -> None:
    bench, clock = Bench(tmp_path, a=1.0), count(1.0)
    confirming = Confirming(bench.build, bench, bench.begun.append, bench.told.append, lambda: next(clock))
    confirming.confirm({0: [BestRecord(1.0, 1, "a")]}, within_s=100.0)
    assert bench.told == [Confirmed(0, [1], [[1.0] * ROUNDS])]


def test_one_that_was_clearly_slower_is_not_measured_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path, a=1.0, b=0.5)
    bench.confirm({0: [(1.0, 1, "a"), (1.2, 2, "b")]})
    assert bench.told == [Confirmed(0, [1], [[1.0] * ROUNDS])]


def test_one_that_fails_is_left_out_and_a_task_without_any_is_not_confirmed(tmp_path: Path) -> None:
    bench = Bench(tmp_path, a=1.0)
    bench.confirm({0: [(1.0, 1, "crashes"), (1.0, 2, "a")], 1: [(1.0, 3, "crashes")], 2: [(1.0, 4, "unbuildable")]})
    assert bench.begun == [0, 1, 2]
    assert [(one.task, one.trials) for one in bench.told] == [(0, [2])]


def test_it_ends_in_time_having_begun_with_what_matters(tmp_path: Path) -> None:
    bench = Bench(tmp_path, a=1.0)
    bench.confirm({task: [(1.0, task + 1, "a")] for task in (5, 2, 7, 0)}, within_s=7.0)
    assert bench.begun == [5, 2]
    assert list(tmp_path.iterdir()) == []
    assert (longest_confirming_s(10.0), longest_confirming_s(36_000.0)) == (30.0, 1800.0)


def test_what_matters_less_has_fewer_records_measured_again_where_time_is_short(tmp_path: Path) -> None:
    bench = Bench(tmp_path, a=1.0, b=1.01, c=1.02)
    few = [(1.0, 1, "a"), (1.01, 2, "b"), (1.02, 3, "c")]
    bench.confirm(dict.fromkeys((4, 1, 3, 0), few), within_s=43.0)
    assert [(one.task, one.trials) for one in bench.told] == [(4, [1, 2, 3]), (1, [1, 2, 3]), (3, [1]), (0, [1])]
    assert bench.now == 8 * ROUNDS


@pytest.mark.tvm
def test_a_run_confirms_its_best_records_before_it_ends(tmp_path: Path) -> None:
    work_dir = tmp_path / "work"
    given = start(work_dir, network=NetworkSpec("mlp"), trials_budget=12, options=options(confirm=2))
    with Engine(given, tmp_path / "console") as engine:
        assert engine.to_the_end() == Finished("budget")
    told = [event for event in engine.seen if isinstance(event, Confirmed)]
    last = max(place for place, event in enumerate(engine.seen) if isinstance(event, TrialMeasured))
    assert engine.seen.index(told[0]) > last
    assert len(lines(work_dir)) == len(engine.trials) == 12
    phases = [event.task or 0 for event in engine.seen if isinstance(event, Phase) and event.name == "confirming"]
    assert phases == [one.task for one in told]
    for one in told:
        valid = [
            (trial.latency_s, number)
            for number, trial in enumerate(engine.trials, start=1)
            if trial.task == one.task and trial.latency_s and not trial.short
        ]
        near = [number for latency_s, number in sorted(valid)[:2] if latency_s <= min(valid)[0] * 1.1]
        assert one.trials == sorted(near)
        assert all(len(latencies) == ROUNDS and min(latencies) > 0 for latencies in one.latencies_s)
    assert sorted(phases) == sorted({trial.task for trial in engine.trials if trial.latency_s and not trial.short})
    *rounds, confirming = [event for event in engine.seen if isinstance(event, Round)]
    assert (confirming.task, confirming.candidates) == (None, 0)
    assert 0 < confirming.again_s <= confirming.ended_s - confirming.began_s
    assert not any(one.again_s for one in rounds)


@pytest.mark.tvm
def test_a_stop_meanwhile_ends_it_at_once_with_its_budget_used_up(tmp_path: Path) -> None:
    given = start(tmp_path / "work", trials_budget=4, options=options(confirm=3, min_repeat_ms=200))
    with Engine(given, tmp_path / "console") as engine:
        while engine.until(Phase).name != "confirming":
            pass
        engine.stop()
        assert engine.to_the_end() == Finished("budget")


@pytest.mark.tvm
@pytest.mark.parametrize(
    ("elapsed_s", "limit_s", "changes", "goes_on"),
    [
        (960.0, 1000.0, {}, True),
        (975.0, 1000.0, {}, False),
        (975.0, None, {}, True),
        (975.0, 1000.0, {"options": options(confirm=0)}, True),
        (975.0, 1000.0, {"remote": Remote(Address("127.0.0.1", 9), "pi")}, False),
        (975.0, 1000.0, {"pool": Pool(2)}, True),
        (94.0, 100.0, {}, True),
        (96.0, 100.0, {}, False),
    ],
    ids=["early", "late", "no limit", "confirms none", "remote", "pool", "early in a short run", "late in a short run"],
)
def test_part_of_a_time_limit_is_kept_for_it(
    tmp_path: Path, elapsed_s: float, limit_s: float | None, changes: dict[str, Any], *, goes_on: bool
) -> None:
    from tuning.engines.meta_schedule.trial_budget import TrialBudget
    from tuning.engines.meta_schedule.trials import Trials

    info = TaskInfo(0, "matmul", 1, 1e6, "hash", [], "")
    given = start(tmp_path, **{"elapsed_s": elapsed_s, "options": options(confirm=3)} | changes)
    with (tmp_path / "events").open("wb") as events:
        budget = TrialBudget([1], [0], given.options)
        trials = Trials(given, [info], budget, EventWriter(events.fileno()), time.monotonic())
    trials.limit_time(limit_s)
    assert trials.next_task() == (0 if goes_on else None)
    assert goes_on or trials.finish_reason() == "time_limit"
    trials.limit_time(None)
