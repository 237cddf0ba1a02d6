"""Runs of auto_scheduler and AutoTVM with the real engines under a real older TVM: the guarantees that MetaSchedule's runs have."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.family import descendants
from tests.threads import when
from tuning.actions import compilations, runs
from tuning.models import Compilation, Record, Run
from tuning.reads import downloads
from tuning.validation import Invalid
from tuning.work.compiling import carry_out
from tuning.work.supervisor import supervise

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.tvm]
COMMON = {"network": "mlp", "trials": 6, "seed": 1, "min_repeat_ms": 10, "tasks": [1]}
ENGINES: dict[str, dict[str, Any]] = {
    "auto_scheduler": {
        "trials_per_batch": 3,
        "evolutionary_search_population": 32,
        "evolutionary_search_num_iters": 1,
        "sample_init_min_population": 8,
    },
    "autotvm": {"tuner": "random"},
}


@pytest.fixture(autouse=True)
def old(settings: Any, legacy_python: str) -> None:
    settings.LEGACY_PYTHON = {"old": Path(legacy_python)}
    settings.BENCHMARK_S = 0.5


@pytest.fixture(params=list(ENGINES))
def engine(request: Any) -> str:
    return str(request.param)


def launch(engine: str, **changes: Any) -> Run:
    return runs.launch({**COMMON, **ENGINES[engine], "engine": engine, **changes}, None, enqueue=False)


def tune(run: Run) -> Run:
    assert run.claim()
    supervise(run, threading.Event())
    run.refresh_from_db()
    return run


@pytest.mark.parametrize("engine", ["auto_scheduler", pytest.param("autotvm", marks=pytest.mark.rare)])
def test_it_survives_kills_stops_and_extensions_and_learns_from_earlier_runs(engine: str) -> None:
    run = launch(engine)
    assert (run.engine, run.interpreter) == (engine, "old")
    killer = when(Run.objects.filter(trials_done__gte=2).exists, kill_engines)
    run = tune(run)
    killer.join(60)
    assert run.status == "failed"
    assert "SIGKILL" in str(run.error)
    assert 2 <= run.trials_done < 6
    assert engines() == []
    before = list(run.trials.values_list("number", "latency_s"))

    runs.resume(run)
    run = tune(run)
    assert (run.status, run.finish_reason, run.trials_done, run.error) == ("finished", "budget", 6, None)
    assert list(run.trials.values_list("number", flat=True)) == list(range(1, 7))
    assert list(run.trials.values_list("number", "latency_s"))[: len(before)] == before
    assert len(records_of(run)) == 6
    _check_facts(run)
    _check_downloads(run)

    runs.extend(run, {"trials": 100})
    stopper = when(Run.objects.filter(trials_done__gte=7).exists, lambda: runs.stop(Run.objects.get(pk=run.pk)))
    run = tune(run)
    stopper.join(60)
    assert run.status == "stopped"
    assert 7 <= run.trials_done < 106
    assert len(records_of(run)) == run.trials_done
    assert engines() == []

    second = tune(launch(engine, trials=2))
    assert (second.status, second.warm_start) == ("finished", {"tasks": [1], "runs": [run.pk]})
    assert len(records_of(second)) == 2, "the records that it started from aren't trials of its own"
    _check_compiling(run)


def _check_compiling(run: Run) -> None:
    made = _compiled(run)
    shown = made.to_dict()
    assert (shown["status"], shown["verified"], shown["error"]) == ("finished", True, None), console(made)
    (used,) = shown["used"]
    assert (used["run"], used["trial"]) == (run.pk, run.tasks.get(index=1).best_trial)
    assert "dense" in used["function"]
    assert len(made.untuned) >= 2
    assert made.versions["apache-tvm"] == run.versions["apache-tvm"]
    assert [one["shape"] for one in made.inputs + made.outputs] == [[1, 1, 28, 28], [1, 10]]
    (benchmark,) = shown["benchmarks"]
    assert benchmark["tuned"]
    assert benchmark["untuned"]
    manifest = json.loads(made.manifest.read_bytes())
    assert manifest["records"] == shown["used"]
    assert manifest["library"]["sha256"] == hashlib.sha256(made.library.read_bytes()).hexdigest()
    assert "Network: network namespace" in console(made) or "not confined" in console(made)

    if run.engine == "autotvm":  # Comparing is the same for both.
        _check_spoilt(made)
    Record.objects.filter(task__run=run).update(text='{"input": 1}')
    made = _compiled(run)
    assert made.status == "failed"
    assert f"of run {run.pk} can't be used: it isn't as TVM writes it" in str(made.error)
    assert not made.folder.exists(), "no process was asked"


def _check_spoilt(made: Compilation) -> None:
    _spoil(made.library)
    compilations.benchmark(made, None, enqueue=False)
    made = _to_the_end(made)
    assert (made.status, made.verified) == ("finished", False)
    assert "don't use it" in str(made.error)


def _compiled(run: Run) -> Compilation:
    return _to_the_end(compilations.compile_run(run, {}, None, enqueue=False))


def _to_the_end(compilation: Compilation) -> Compilation:
    while compilation.status not in Compilation.ENDED:
        assert compilation.claim()
        carry_out(compilation, threading.Event())
        compilation = Compilation.objects.shown().get(pk=compilation.pk)
    return compilation


def _spoil(library: Path) -> None:
    """Some weights become other ones."""
    data = bytearray(library.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 4096] = b"\x42" * 4096
    library.write_bytes(data)


def console(compilation: Compilation) -> str:
    return compilation.console_log.read_text()


def _check_facts(run: Run) -> None:
    task = run.tasks.get(index=1)
    assert (run.tasks_chosen, task.trials, task.chosen) == (1, 6, True)
    assert task.best_latency_s == min(t for t in run.trials.values_list("latency_s", flat=True) if t is not None)
    assert run.target["kind"] == "llvm"
    assert run.versions["apache-tvm"].startswith("0.")
    best = task.records.first()
    assert best is not None
    assert (best.latency_s, best.trial) == (task.best_latency_s, task.best_trial)
    assert best.text == records_of(run)[best.trial - 1]


def _check_downloads(run: Run) -> None:
    whole = downloads.record_file(run, "native", "all")
    assert whole.name == "all-records.json"
    assert b"".join(whole.pieces).decode().splitlines() == records_of(run)
    best = b"".join(downloads.record_file(run, "native", "best", k=1).pieces).decode().splitlines()
    record = run.tasks.get(index=1).records.first()
    assert record
    assert best == [record.text]
    lines = b"".join(downloads.record_file(run, "jsonl", "all").pieces).splitlines()
    assert len(lines) == 1 + 6


def test_a_time_limit_ends_it() -> None:
    run = tune(launch("autotvm", trials=100_000, time_limit_s=4.0))
    assert (run.finish_reason, run.status in ("finished", "failed")) == ("time_limit", True)
    assert engines() == []


def test_an_engine_that_refuses_names_the_option(engine: str) -> None:
    run = tune(launch(engine, tasks=[99]))
    assert run.status == "failed"
    assert "99" in str(run.error)


def test_it_fails_clearly_if_its_interpreter_is_gone(engine: str, settings: Any) -> None:
    run = launch(engine)
    settings.LEGACY_PYTHON = {}
    run = tune(run)
    assert run.status == "failed"
    assert "'old', which TUNEBOARD_LEGACY_PYTHON doesn't name" in str(run.error)
    with pytest.raises(Invalid, match="set TUNEBOARD_LEGACY_PYTHON"):
        launch(engine)


def kill_engines() -> None:
    for process in engines():
        os.kill(process.pid, signal.SIGKILL)


def engines() -> list[psutil.Process]:
    return descendants("tuning.engines.old_tvm")


def records_of(run: Run) -> list[str]:
    """Of all trials, the first one's first."""
    return (run.work_dir / "records.json").read_text().splitlines()
