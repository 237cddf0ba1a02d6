"""A compilation's jobs from claim to end, whatever happens to their processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.utils import timezone

from tests.compile_fixtures import Compiler
from tests.threads import when
from tests.world import make_compilation, make_network, measured_run, tuned_for_cuda
from tuning.actions import compilations, sweeping
from tuning.actions.networks import float_models
from tuning.actions.networks.chosen import stored
from tuning.engines.wire.compiling import Build, LookInto
from tuning.engines.wire.options.rewrites import Rewrites
from tuning.host import sandbox
from tuning.models import Compilation, Record, Run
from tuning.notify import announce
from tuning.queue import jobs
from tuning.reads import artifacts
from tuning.reads.library import tvm
from tuning.validation import Conflict
from tuning.work import compiling
from tuning.work.best_records import alternatives, best_records
from tuning.work.compiling import carry_out

pytestmark = pytest.mark.django_db(transaction=True)
Status = Compilation.Status


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "PULSE_S", 0.05)
    monkeypatch.setattr(jobs, "enqueue", lambda _: None)


@pytest.fixture
def queued() -> Compilation:
    run = measured_run()
    run.move(Run.Status.RUNNING, to=Run.Status.FINISHED)
    return compilations.compile_run(run, {}, None)


def carried_out(compilation: Compilation, shutdown: threading.Event | None = None) -> str:
    compilation = Compilation.objects.shown().get(pk=compilation.pk)
    assert compilation.claim()
    return carry_out(compilation, shutdown or threading.Event())


def fresh(compilation: Compilation) -> Compilation:
    return Compilation.objects.shown().get(pk=compilation.pk)


def test_it_builds_and_then_waits_for_the_device_to_be_proven(queued: Compilation, compiler: Compiler) -> None:
    assert carried_out(queued) == "queued"
    built = fresh(queued)
    assert (built.stage, built.waits_for) == ("prove", "cpu")
    assert built.coverage == {"functions": 3, "tuned": 2, "untuned": ["slow"]}
    assert {(one["trial"], one["latency_s"]) for one in built.used} == {(3, 1e-3), (2, 3e-3)}
    assert built.estimate_s == pytest.approx(1e-3 * 1 + 3e-3 * 2)
    assert built.library.read_bytes() == b"whole"
    assert not built.unpublished.exists()


def test_it_chooses_inside_the_network_on_the_device(compiler: Compiler) -> None:
    run = measured_run(latencies=[(0, 1.2e-3), (1, 3e-3), (0, 1e-3), (0, 9e-3)])
    queued = compilations.compile_run(run, {"choose": "inside"}, None)
    assert (queued.stage, queued.waits_for) == ("choose", "cpu")
    assert not queued.claim(), "its run is using the device"
    run.move(Run.Status.RUNNING, to=Run.Status.FINISHED)
    assert carried_out(queued) == "queued"
    built = fresh(queued)
    assert (built.stage, built.is_published) == ("prove", True)
    tried = [[each["trial"] for each in one["tried"]] for one in (built.chosen or {})["functions"]]
    assert sorted(tried) == [[2], [3, 1]], "trial 4 is too slow to be the fastest anywhere"
    assert carried_out(queued) == "finished"
    assert fresh(queued).chosen == built.chosen


def test_its_kernels_are_captured_unless_that_is_turned_off(compiler: Compiler) -> None:
    run = tuned_for_cuda()
    with_graphs, without = (compilations.compile_run(run, {"cuda_graphs": asked}, None) for asked in ("on", "off"))
    assert [carried_out(with_graphs), carried_out(without)] == ["queued", "queued"]
    assert [fresh(one).to_dict()["cuda_graphs"] for one in (with_graphs, without)] == [4, None]


def test_a_run_in_bfloat16_is_built_and_proven_so(compiler: Compiler) -> None:
    run = measured_run(options={"precision": "bfloat16"})
    run.move(Run.Status.RUNNING, to=Run.Status.FINISHED)
    queued = compilations.compile_run(run, {}, None)
    assert [carried_out(queued), carried_out(queued)] == ["queued", "finished"]
    shown = fresh(queued)
    assert json.loads(shown.manifest.read_bytes())["precision"] == "bfloat16"
    assert shown.tolerance == {"dtype": "bfloat16", "relative": 0.1, "steps": None}


def test_a_quantized_model_is_compared_with_the_one_that_it_was_made_from(compiler: Compiler) -> None:
    floats = make_network("floats")
    network = make_network("int8", operators={"DequantizeLinear": 1}, float_model=floats)
    run = measured_run(network=network)
    run.move(Run.Status.RUNNING, to=Run.Status.FINISHED)
    queued = compilations.compile_run(run, {}, None)
    assert [carried_out(queued), carried_out(queued)] == ["queued", "finished"]
    found = fresh(queued).to_dict()["benchmarks"][0]["accuracy"]
    assert found is not None
    assert (found["network"], found["name"], found["rms_error"], found["without"]) == (floats.pk, "floats", 0.02, None)
    float_models.choose(network, None)
    compilations.benchmark(fresh(queued), None)
    assert carried_out(queued) == "finished"
    latest, before = fresh(queued).to_dict()["benchmarks"]
    assert (latest["accuracy"], before["accuracy"]) == (None, found)


def test_a_run_is_built_from_the_functions_that_it_tuned(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Build] = []

    def build(**given: Any) -> Build:
        asked.append(Build(**given))
        return asked[-1]

    monkeypatch.setattr(compiling, "Build", build)
    run = measured_run(options={"algorithms": "fastest", "transposed": "by_phase"})
    run.move(Run.Status.RUNNING, to=Run.Status.FINISHED)
    assert carried_out(compilations.compile_run(run, {}, None)) == "queued"
    (question,) = asked
    assert question.rewrites == Rewrites(algorithms=True, by_phase=True)


@pytest.fixture
def any_batch() -> Compilation:
    """A queued library of two runs, for batch 1 and 8."""
    runs = []
    for batch, latency_s in ((1, 1e-3), (8, 5e-3)):
        network = stored("mlp", {"batch": batch}, None)
        runs.append(measured_run(network=network, name=f"batch {batch}", latencies=[(0, latency_s)]))
        runs[-1].move(Run.Status.RUNNING, to=Run.Status.FINISHED)
    return compilations.compile_run(runs[0], {"batches": "all"}, None)


def test_a_library_for_any_batch_has_figures_of_each(any_batch: Compilation, compiler: Compiler) -> None:
    assert [carried_out(any_batch), carried_out(any_batch)] == ["queued", "finished"]
    shown = fresh(any_batch).to_dict()
    runs = [one["run"] for one in shown["batches"]]
    assert [(one["batch"], one["inputs"][0]["shape"]) for one in shown["batches"]] == [(1, [1, 784]), (8, [8, 784])]
    assert [{used["run"] for used in one["used"]} for one in fresh(any_batch).batches] == [{run} for run in runs]
    assert [one["batch"] for one in shown["benchmarks"][0]["batches"]] == [1, 8]
    tuned = [one["tuned"] for one in shown["benchmarks"][0]["batches"]]
    assert [one and one["median_s"] for one in tuned] == [2e-3, 16e-3]
    assert shown["measured_s"] == 2e-3, "that of the run's own batch"


def test_a_run_that_was_deleted_meanwhile_is_named(any_batch: Compilation, compiler: Compiler) -> None:
    other = any_batch.batches[1]["run"]
    Run.objects.filter(pk=other).update(deleted_at=timezone.now())
    assert carried_out(any_batch) == "failed"
    assert fresh(any_batch).error == f"Run {other}, whose records batch 8 should have, was deleted."
    assert not fresh(any_batch).is_published


def test_it_proves_and_keeps_every_benchmark(queued: Compilation, compiler: Compiler) -> None:
    assert [carried_out(queued), carried_out(queued)] == ["queued", "finished"]
    compilations.benchmark(fresh(queued), None)
    assert carried_out(queued) == "finished"
    shown = fresh(queued).to_dict()
    assert (shown["verified"], shown["max_abs_error"], shown["error"]) == (True, 1e-6, None)
    assert shown["measured_s"] == 2e-3
    assert shown["speedup"] == pytest.approx(10.0)
    assert len(shown["benchmarks"]) == 2
    tuned = shown["benchmarks"][0]["tuned"]
    assert tuned
    assert [tuned["min_s"], tuned["max_s"], tuned["mean_s"]] == pytest.approx([1e-3, 4e-3, 7e-3 / 3])
    assert shown["benchmarks"][0]["onnxruntime"] is None


def test_a_library_that_computes_something_else_is_reported(queued: Compilation, compiler: Compiler) -> None:
    carried_out(queued)
    fresh(queued).library.write_bytes(b"wrong")
    assert carried_out(queued) == "finished"
    shown = fresh(queued).to_dict()
    assert shown["verified"] is False
    assert "don't use it" in str(shown["error"])


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("kill", "at the step “Building”: its process was killed by SIGSEGV"),
        ("refuse", "This machine can't build for the target."),
        ("memory", "8,192 MiB of memory that it may use here (TUNEBOARD_COMPILE_MEMORY_MB)"),
        ("full", " is full ("),
    ],
)
def test_a_build_that_fails_says_why_and_publishes_nothing(
    queued: Compilation, compiler: Compiler, how: str, error: str
) -> None:
    compiler(how)
    assert carried_out(queued) == "failed"
    failed = fresh(queued)
    assert error in str(failed.error)
    assert not failed.is_published
    assert [path.name for path in failed.folder.iterdir()] == ["console.log"]
    assert failed.run.status == "finished", "the run is untouched"


@pytest.mark.parametrize("target", [{"kind": "cuda", "arch": "sm_90a"}, {"kind": "llvm"}])
def test_only_a_gpus_driver_reserves_as_many_addresses_as_it_likes(
    target: dict[str, Any], compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, asked, ask = measured_run(), list[Any](), sandbox.ask
    run.move(Run.Status.RUNNING, to=Run.Status.FINISHED)
    Run.objects.filter(pk=run.pk).update(target=target)
    run.refresh_from_db()
    queued = compilations.compile_run(run, {}, None)

    def asking(module: str, question: Any, *args: Any, **named: Any) -> Any:
        asked.append(question)
        return ask(module, question, *args, **named)

    monkeypatch.setattr(sandbox, "ask", asking)
    assert [carried_out(queued), carried_out(queued)] == ["queued", "finished"]
    most = sandbox.NO_LIMIT_MB if target["kind"] == "cuda" else 8192
    measuring = [question for question in asked if not isinstance(question, LookInto)]
    assert [question.memory_mb for question in measuring] == [most, most]


def test_a_crash_shows_the_last_lines_of_the_log(queued: Compilation, compiler: Compiler) -> None:
    compiler("kill")
    carried_out(queued)
    assert "LLVM ERROR: out of registers" in str(fresh(queued).error).partition("The log's last lines:")[2]


def test_a_full_disk_is_reported(queued: Compilation, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sandbox, "ask", full)
    assert carried_out(queued) == "failed"
    assert "is full" in str(fresh(queued).error)


def test_a_build_that_takes_too_long_is_killed(queued: Compilation, compiler: Compiler, settings: Any) -> None:
    settings.COMPILE_S = 1
    compiler("hang")
    assert carried_out(queued) == "failed"
    assert fresh(queued).error == "It took longer than the 1 s that it may take here (TUNEBOARD_COMPILE_S)."


def test_a_build_can_be_cancelled(queued: Compilation, compiler: Compiler) -> None:
    compiler("hang")
    cancelling = when(lambda: fresh(queued).phase == "building", lambda: compilations.cancel(fresh(queued)))
    assert carried_out(queued) == "cancelled"
    cancelling.join()
    assert not fresh(queued).unpublished.exists()
    with pytest.raises(Conflict, match="is cancelled"):
        compilations.cancel(fresh(queued))


def test_a_failed_benchmark_leaves_a_proven_library_as_it_was(queued: Compilation, compiler: Compiler) -> None:
    carried_out(queued)
    carried_out(queued)
    compilations.benchmark(fresh(queued), None)
    compiler("kill")
    assert carried_out(queued) == "finished"
    shown = fresh(queued).to_dict()
    assert shown["verified"] is True
    assert "SIGSEGV" in str(shown["error"])
    assert len(shown["benchmarks"]) == 1


def test_at_shutdown_it_is_queued_again_for_the_same_stage(queued: Compilation, compiler: Compiler) -> None:
    shutdown = threading.Event()
    shutdown.set()
    compiler("hang")
    assert carried_out(queued, shutdown) == "queued"
    assert fresh(queued).stage == "build"
    assert Compilation.objects.forgotten().get() == queued


def test_a_run_that_is_deleted_meanwhile_leaves_nothing(queued: Compilation, compiler: Compiler) -> None:
    compiler("hang")
    deleting = when(lambda: fresh(queued).phase == "building", lambda: Run.objects.all().delete())
    assert carried_out(queued) == "gone"
    deleting.join()
    assert not Compilation.objects.exists()


def test_an_internal_error_is_reported(queued: Compilation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "best_records", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        carried_out(queued)
    assert fresh(queued).status == "failed"
    assert "ZeroDivisionError" in str(fresh(queued).error)


def test_it_announces_each_phase(queued: Compilation, compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(announce, "_send", lambda group, message: told.append((group, message["compilation"]["phase"])))
    carried_out(queued)
    group = f"compilation.{queued.pk}"
    assert told == [(group, "loading"), (group, "building"), (group, None)]


def test_a_killed_job_leaves_nothing_and_compiling_again_succeeds(
    queued: Compilation, database_env: dict[str, str], compiler: Compiler, project_root: Path
) -> None:
    job = subprocess.Popen(
        [sys.executable, "-c", JOB.format(key=queued.pk)],
        env={**os.environ, **database_env, "TVM_FAKE_COMPILER": "hang"},
        cwd=project_root,
    )
    until(lambda: "hanging" in log_of(queued))
    children = psutil.Process(job.pid).children(recursive=True)
    assert children
    os.kill(job.pid, signal.SIGKILL)
    job.wait()
    assert psutil.wait_procs(children, timeout=30)[1] == [], "no process outlives the job"
    assert fresh(queued).unpublished.exists()
    Compilation.objects.update(heartbeat_at=timezone.now() - timedelta(hours=1))
    sweeping.sweep()
    dead = fresh(queued)
    assert (dead.status, dead.error) == ("failed", "The worker stopped responding. Compile again.")
    assert [path.name for path in dead.folder.iterdir()] == ["console.log"]
    again = compilations.compile_run(dead.run, {}, None)
    assert [carried_out(again), carried_out(again)] == ["queued", "finished"]
    assert fresh(again).verified


JOB = """
import django, threading
django.setup()
from tuning.work import compiling
from tuning.models import Compilation
compiling.COMPILER = "tests.fake_compiler"
one = Compilation.objects.shown().get(pk={key})
assert one.claim()
compiling.carry_out(one, threading.Event())
"""


def log_of(compilation: Compilation) -> str:
    path = fresh(compilation).console_log
    return path.read_text() if path.exists() else ""


def until(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_library_source_takes_the_best_of_all_runs() -> None:
    run, other = measured_run(device="a"), measured_run([(0, 5e-4)], device="b")
    for one in (run, other):
        Run.objects.filter(pk=one.pk).update(versions={"apache-tvm": tvm()})
    run.refresh_from_db()
    own, estimate = best_records(run, "run")
    assert [(record.run, record.latency_s) for record in own] == [(run.pk, 1e-3), (run.pk, 3e-3)]
    assert estimate == pytest.approx(7e-3)
    best, estimate = best_records(run, "library")
    assert [(record.run, record.latency_s) for record in best] == [(other.pk, 5e-4), (run.pk, 3e-3)]
    assert estimate == pytest.approx(6.5e-3)


def test_what_else_is_tried_inside_comes_from_the_same_source() -> None:
    run = measured_run([(0, 1.2e-3), (1, 3e-3), (0, 1e-3), (0, 1.1e-3)], device="a")
    other = measured_run([(0, 0.9e-3)], device="b")
    stranger = measured_run([(0, 0.95e-3)], device="c")
    Run.objects.exclude(pk=stranger.pk).update(versions={"apache-tvm": tvm()})
    Run.objects.filter(pk=stranger.pk).update(versions={"apache-tvm": "0.26.0"})
    run.refresh_from_db()
    assert tried(run, "run") == [[(run.pk, 3), (run.pk, 4), (run.pk, 1)], [(run.pk, 2)]]
    assert tried(run, "library") == [[(other.pk, 1), (run.pk, 3), (run.pk, 4), (run.pk, 1)], [(run.pk, 2)]]


def tried(run: Run, source: str) -> list[list[tuple[int, int]]]:
    """Run and trial of the best record and of those that are tried beside it, for each task."""
    best, _ = best_records(run, source)
    tasks = zip(best, alternatives(run, source, best), strict=True)
    return [[(record.run, record.trial) for record in (first, *more)] for first, more in tasks]


@pytest.mark.parametrize("source", ["run", "library"])
def test_of_two_tasks_that_compute_the_same_the_slower_one_is_not_built(source: str) -> None:
    run = measured_run()
    Run.objects.update(versions={"apache-tvm": tvm()})
    run.refresh_from_db()
    run.tasks.filter(index=0).update(weight=0)
    run.tasks.filter(index=1).update(weight=3)
    found, estimate = best_records(run, source)
    assert [record.latency_s for record in found] == [3e-3]
    assert estimate == pytest.approx(3 * 3e-3)
    Record.objects.filter(task__index=0).delete()
    assert artifacts.record_coverage(run, source)["untuned"] == []


def test_the_library_source_passes_over_records_of_another_tvm() -> None:
    run = measured_run()
    Run.objects.update(versions={"apache-tvm": "0.26.0"})
    run.refresh_from_db()
    assert best_records(run, "library") == ([], None)


def test_there_is_no_estimate_without_a_record_of_every_task() -> None:
    run = measured_run([(0, 1e-3), (1, None)])
    found, estimate = best_records(run, "run")
    assert (len(found), estimate) == (1, None)


def test_missing_records_are_reported(queued: Compilation, compiler: Compiler) -> None:
    Record.objects.all().delete()
    assert carried_out(queued) == "failed"
    assert "No run of the project has a valid record" in str(fresh(queued).error)


def test_missing_files_are_reported(compiler: Compiler) -> None:
    run = measured_run()
    run.move(Run.Status.RUNNING, to=Run.Status.FINISHED)
    compilation = make_compilation(run)
    with pytest.raises(Conflict, match="files are missing"):
        artifacts.library_file(compilation)
