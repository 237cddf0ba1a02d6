"""A regression check from its tuning to two verdicts, with TVM, by the jobs that a site's workers do."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tuning.actions import runs
from tuning.actions.checking import checks
from tuning.actions.checking.results import tend
from tuning.models import CheckResult, Compilation, RegressionCheck, Run
from tuning.noise import FEWEST
from tuning.queue import jobs
from tuning.work.compiling import carry_out
from tuning.work.supervisor import supervise

pytestmark = [pytest.mark.tvm, pytest.mark.django_db(transaction=True)]
LAUNCH = {
    "network": "mlp",
    "trials": 8,
    "trials_per_batch": 4,
    "strategy": "replay-trace",
    "min_repeat_ms": 10,
    "confirm": 0,
}


@pytest.fixture
def queued(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What workers were told of, in order."""
    rows: list[Any] = []
    monkeypatch.setattr(jobs, "enqueue", rows.append)
    return rows


def work(queued: list[Any]) -> None:
    """Do what is queued, as workers do, and what comes of it."""
    while queued:
        row = queued.pop(0)
        row.refresh_from_db()
        assert row.claim()
        if isinstance(row, Run):
            assert supervise(row, threading.Event(), lambda _: None) == "finished", row.error
        elif carry_out(row, threading.Event()) == Compilation.Status.QUEUED:
            queued.append(row)


def done(check: RegressionCheck, queued: list[Any]) -> CheckResult:
    """A result of the check, once workers and sweep have done all of it."""
    result = checks.do_now(check, None)
    while result.goes_on:
        work(queued)
        tend()
        result.refresh_from_db()
        assert queued or not result.goes_on, f"nobody goes on with it at {result.stage}"
    return result


def test_a_network_is_tuned_compiled_and_judged(queued: list[Any], settings: Any) -> None:
    settings.BENCHMARK_S = 1.0
    run = runs.launch(LAUNCH, None)
    work(queued)
    check = checks.create({"run": run.pk, "name": "mlp nightly", "how": "tune", "trials": 8}, None)
    first = done(check, queued)
    assert first.verdict == "first", first.error
    assert len(first.rounds) >= FEWEST
    assert (first.latency_s or 0) > 0
    tuned = first.run
    assert tuned is not None
    assert tuned.pk != run.pk
    assert tuned.warm_start is not None
    assert tuned.warm_start["runs"] == [run.pk]

    checks.change(check, {"how": "benchmark"})
    second = done(check, queued)
    assert second.verdict in ("within noise", "better", "regression"), second.error
    assert (second.latency_s or 0) > 0
    assert second.compilation == first.compilation
    assert second.benchmark != first.benchmark
