"""The benchmark's figures from made-up timelines, its plan, and one real comparison."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.core.management import CommandError, call_command

from tests.benchmarks.engine import plan, report, sides
from tests.benchmarks.engine.compare import Journal, compare, records_used
from tests.benchmarks.engine.order import Order, told
from tests.benchmarks.engine.sides import Best, Broken, Tuned
from tests.benchmarks.engine.timeline import Comparison, Estimate, Measured, Timeline, estimates
from tests.world import measured_run
from tuning.engines.wire.options.meta_schedule import Options
from tuning.engines.wire.protocol import Finished, NetworkSpec, TrialMeasured, encode
from tuning.models import Run


def timeline(*trials: tuple[float, int, float | None], short: bool = False, first_s: float = 2.0) -> Timeline:
    """Of two tasks with weights 1 and 2."""
    measured = [Measured(at_s, task, latency_s, short) for at_s, task, latency_s in trials]
    return Timeline([1, 2], measured, wall_s=measured[-1].at_s, first_s=first_s, streaming_s=0.1)


def comparison(ours: Timeline, stock: Timeline, seed: int = 1) -> Comparison:
    """When measured again, every latency is half of what it was."""
    again = [[(at_s, estimate / 2) for at_s, estimate in _estimates(side)] for side in (ours, stock)]
    return Comparison("matmul", 16, seed, ours, stock, *again)


def _estimates(side: Timeline) -> list[Estimate]:
    return estimates(side.improvements(), side.weights)


FAST = timeline((2.0, 0, 4e-3), (3.0, 1, None), (4.0, 1, 3e-3), (5.0, 1, 1e-3))
SLOW = timeline((3.0, 0, 4e-3), (4.5, 1, 8e-3), (20.0, 1, 1.75e-3), first_s=10.0)


def test_an_estimate_begins_when_every_task_has_a_valid_trial() -> None:
    assert _estimates(FAST) == [(4.0, 10e-3), (5.0, 6e-3)]
    assert timeline((1.0, 0, 1e-3), (2.0, 1, None)).final_estimate_s() is None


def test_orders_of_work_are_compared_at_equal_trials() -> None:
    small = [Order(seed, 0, [(36, 9e-3), (200, 4e-3 * seed), (320, 2e-3 * seed)], 20.0) for seed in (1, 2)]
    large = [Order(seed, 16, [(273, 5e-3), (310, 2e-3)], 60.0) for seed in (1, 2)]
    assert (small[0].first, small[0].estimate_s(35), small[0].estimate_s(319)) == (36, None, 4e-3)
    assert told([*small, *large], [0, 16], 320).splitlines() == [
        "first_trials default: estimate from trial 36, 36, after 20, 20 s",
        "  after 320: 1.414 of 16's (1.000 to 2.000), 2 seeds",
        "first_trials 16: estimate from trial 273, 273, after 60, 60 s",
        "  after 320: 1.000 of 16's (1.000 to 1.000), 2 seeds",
    ]


def test_a_short_measurement_is_no_estimate() -> None:
    assert timeline((1.0, 0, 1e-3), (2.0, 1, 1e-3), short=True).final_estimate_s() is None


def test_it_divides_ours_by_stocks() -> None:
    figures = comparison(FAST, SLOW).figures(cores=2)
    assert figures == pytest.approx(
        {
            "trials_a_second": (4 / 5) / (3 / 20),
            "first_trial": 0.2,
            "latency_at_equal_trials": 6 / 7.5,
            "latency_at_equal_time": 6 / 20,
            "time_to_quality": 5 / 20,
            "streaming": 0.1 / (5 * 2),
        }
    )


def test_a_quality_that_is_never_reached_has_no_figure() -> None:
    poor = timeline((1.0, 0, 1.0), (2.0, 1, 1.0))
    assert comparison(SLOW, FAST).figures(2)["time_to_quality"] is None
    assert comparison(poor, SLOW).figures(2)["time_to_quality"] is None
    half = [comparison(FAST, SLOW), comparison(poor, SLOW, seed=2)]
    assert report.time_to_quality(half, 2) is None
    assert "not reached in 1 of 2" in report.markdown(half, 2)


def test_its_table_has_medians_and_ranges() -> None:
    slower = timeline((4.0, 0, 4e-3), (8.0, 1, 1e-3), first_s=4.0)
    found = [comparison(FAST, SLOW), comparison(slower, SLOW, seed=2)]
    header, row, _ = report.rows(found, 2)
    assert row[:3] == ["matmul", "16", "2"]
    assert row[header.index("Time to first trial")] == "0.300 (0.200 to 0.400)"
    assert report.time_to_quality(found, 2) == pytest.approx((0.25 * 0.4) ** 0.5)


def test_an_interrupted_plan_has_results_of_each_workload() -> None:
    pairs = list(plan.pairs(["matmul", "conv2d"], [64, 16], 2, None))
    assert [(pair.workload, pair.batch) for pair in pairs[:4]] == [
        ("matmul", 64),
        ("matmul", 16),
        ("conv2d", 64),
        ("conv2d", 16),
    ]
    assert [pair.seed for pair in pairs] == [1] * 4 + [2] * 4
    assert len({pair.key for pair in pairs}) == 8


def test_nothing_measured_is_lost_or_measured_twice(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    journal = Journal(path)
    (pair,) = plan.pairs(["matmul"], [16], 1, 3)
    assert not journal.has(pair)
    journal.add(comparison(FAST, SLOW))
    again = Journal(path)
    assert again.comparisons == [comparison(FAST, SLOW)]
    assert again.has(pair)
    assert list(tmp_path.iterdir()) == [path]


def compares_it_with_onnxruntime(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("bench_engine", "--onnxruntime", str(Run.objects.latest("pk").pk), "--json")
    (shown,) = json.loads(capsys.readouterr().out)
    assert (shown["scheduled"], shown["functions"]) == (1, 1)
    assert shown["max_abs_error"] < 1e-4 * shown["largest"]
    assert min(shown["tuned_s"] + shown["onnxruntime_s"]) > 0


@pytest.mark.django_db(transaction=True)
def test_it_refuses_an_empty_plan() -> None:
    with pytest.raises(CommandError, match="at least 1"):
        call_command("bench_engine", "--repeats", "0")


@pytest.mark.django_db(transaction=True)
def test_it_compares_only_runs_with_all_tasks_measured_with_onnxruntime() -> None:
    run = measured_run([(0, 2e-3)])
    with pytest.raises(CommandError, match="measured 1 of its 2 tasks"):
        call_command("bench_engine", "--onnxruntime", str(run.pk))
    with pytest.raises(CommandError, match=f"no run {run.pk + 1}"):
        call_command("bench_engine", "--onnxruntime", str(run.pk), str(run.pk + 1))


def test_ours_continues_for_as_long_as_stock_tvm_took_if_that_was_better(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    latency_s = {"ours": 2e-3, "stock": 1e-3, "better": 1.5e-3, "good": 1.02e-3}
    tuned = Tuned(Run(target={}), one_task((4.0, 2e-3)), {0: [(4.0, "ours")]})
    until = []

    def go_on(_tuned: Tuned, until_s: float) -> Best:
        until.append(until_s)
        return {0: [(4.0, "ours"), (6.0, "better"), (8.0, "good")]}

    monkeypatch.setattr(sides, "ours", lambda _pair: tuned)
    monkeypatch.setattr(sides, "stock", lambda *_: (one_task((20.0, 1e-3)), {0: [(20.0, "stock")]}))
    monkeypatch.setattr(sides, "go_on", go_on)
    monkeypatch.setattr(sides, "measured_together", lambda _target, texts: [latency_s[text] for text in texts])
    made = compare(plan.Pair("matmul", 16, 1, 1), tmp_path, lambda _text: None)
    assert until == [20.0]
    assert (made.ours_estimates, made.later) == ([(4.0, 2e-3)], [(6.0, 1.5e-3), (8.0, 1.02e-3)])
    figures = made.figures(2)
    assert (figures["latency_at_equal_trials"], figures["time_to_quality"]) == (2.0, 8 / 20)
    latency_s["ours"] = 1.01e-3
    assert compare(plan.Pair("matmul", 16, 1, 1), tmp_path, lambda _text: None).later == []
    assert until == [20.0], "ours was already as good"


def one_task(*trials: tuple[float, float]) -> Timeline:
    measured = [Measured(at_s, 0, latency_s, short=False) for at_s, latency_s in trials]
    return Timeline([1], measured, wall_s=measured[-1].at_s, first_s=measured[0].at_s, streaming_s=0.1)


@pytest.mark.rare
@pytest.mark.tvm
@pytest.mark.django_db(transaction=True)
def test_a_run_that_continues_gets_more_trials_in_the_time_it_is_given() -> None:
    tuned = sides.ours(plan.Pair("matmul", 2, 2, 1))
    # A busy machine takes a while to start the engine again.
    until_s = tuned.timeline.wall_s + 30
    best = sides.go_on(tuned, until_s)
    assert tuned.run.trials_done > len(tuned.timeline.trials) == 2
    assert best[0][: len(tuned.best[0])] == tuned.best[0]
    assert tuned.run.time_limit_s == until_s


TWO_TASKS = NetworkSpec("mlp"), Options(trials_per_batch=2, seed=1, build_timeout_s=300.0), 4
"""Tuned in two batches of two trials."""


def test_a_process_that_waits_for_room_in_its_pipe_can_be_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stock TVM's does when it reports hundreds of trials after the time in which they count."""
    busy = tmp_path / "python"
    busy.write_text(
        f"#!{sys.executable}\n"
        "import os, signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: None)\n"
        f"while True: os.write(int(sys.argv[-1]), {encode(Finished('budget'))!r})\n"
    )
    busy.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(busy))
    events = sides.stock_events(*TWO_TASKS, tmp_path)
    assert next(events) == Finished("budget")
    events.close()
    assert "BrokenPipeError" in (tmp_path / sides.CONSOLE).read_text()


@pytest.mark.tvm
@pytest.mark.parametrize(("measured", "moments"), [([3.0, None, 2.0], [3.0, 2.0, 2.0]), ([None], [9.0])])
def test_a_trial_of_stock_tvm_whose_build_failed_ended_with_its_batch(
    measured: list[float | None], moments: list[float]
) -> None:
    """Not when TVM reports it, which may be when the time is over in which trials count."""
    from tests.benchmarks.engine.stock import ended

    builds = [SimpleNamespace(error_msg=None if at_s else "Failed.", artifact_path=at_s) for at_s in measured]
    assert ended(builds, SimpleNamespace(ended=float, now=lambda: 9.0)) == moments


@pytest.mark.tvm
@pytest.mark.rare
def test_trials_of_stock_tvms_first_pass_ended_one_task_after_the_other(tmp_path: Path) -> None:
    """TVM reports them together, once the pass is over."""
    events = list(sides.stock_events(*TWO_TASKS, tmp_path))
    trials = [event for event in events if isinstance(event, TrialMeasured)]
    assert [trial.task for trial in trials] == [0, 0, 1, 1]
    ended = [trial.at_s for trial in trials if trial.at_s is not None]
    assert len(set(ended)) == 4
    assert ended == sorted(ended)


@pytest.mark.tvm
@pytest.mark.rare
@pytest.mark.django_db(transaction=True)
def test_it_compares_with_stock_tvm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "results.json"
    small = ["--workloads", "matmul", "--batches", "2", "--trials", "2", "--repeats", "1", "--into", str(path)]
    call_command("bench_engine", *small, "--json")
    (shown,) = json.loads(capsys.readouterr().out)
    assert (shown["workload"], shown["batch"], shown["seed"]) == ("matmul", 2, 1)
    for side in ("ours", "stock"):
        assert shown[side]["trials"] == 2
        assert 0 < shown[side]["first_s"] < shown[side]["wall_s"]
        assert shown[side]["estimate_s"] > 0
        assert shown[f"{side}_s"] > 0, "measured side by side"
    assert 0 < shown["ratios"]["streaming"] < 1
    if importlib.util.find_spec("onnxruntime"):
        compares_it_with_onnxruntime(capsys)
    (kept,) = Journal(path).comparisons
    assert [trial.task for trial in kept.stock.trials] == [0, 0]
    call_command("bench_engine", *small, "--json")
    assert json.loads(capsys.readouterr().out) == [shown], "it was compared only once"


def test_it_says_why_a_figure_is_missing() -> None:
    late = timeline((10.0, 0, 4e-3), (20.0, 1, 1e-3), first_s=10.0)
    assert "stock had no estimate yet in 1 of 1" in report.markdown([comparison(FAST, late)], 2)


def test_what_was_beaten_before_every_task_had_a_record_is_not_measured_again() -> None:
    best = {0: [(1.0, "a"), (2.0, "b"), (9.0, "c")], 1: [(3.0, "d"), (4.0, "e")]}
    assert records_used(best) == [(2.0, 0, "b"), (3.0, 1, "d"), (4.0, 1, "e"), (9.0, 0, "c")]
    assert records_used({0: [(1.0, "a")], 1: []}) == [], "a task without a record leaves no estimate"


def test_it_refuses_a_results_file_that_it_cannot_read(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text('[{"workload": "matmul"}]')
    with pytest.raises(Broken, match=r"results\.json isn't a results file"):
        Journal(path)
    assert path.read_text() == '[{"workload": "matmul"}]'
