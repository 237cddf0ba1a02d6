"""Queue, cancel and repeat compilations, and who may use a device."""

from __future__ import annotations

import os
import threading
import time
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.threads import when
from tests.world import make_compilation, make_run, measured_run, publish, tuned_for_cuda
from tuning.actions import compilations, sweeping
from tuning.actions.networks.chosen import stored
from tuning.engines.wire.versions import PINS
from tuning.models import Compilation, Project, Run
from tuning.queue import celery, jobs
from tuning.reads import artifacts
from tuning.validation import Conflict, Invalid

pytestmark = pytest.mark.django_db(transaction=True)
Status, Stage = Compilation.Status, Compilation.Stage


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """Enqueued jobs: the compilation and the queue."""
    sent: list[tuple[int, str]] = []
    monkeypatch.setattr(jobs.compile_library, "apply_async", lambda args, queue, retry: sent.append((args[0], queue)))
    return sent


def ended(run: Run) -> Run:
    assert run.move(Run.Status.RUNNING, to=Run.Status.FINISHED)
    return run


def waiting(run: Run, **values: Any) -> Compilation:
    return make_compilation(run, status=Status.QUEUED, verified=None, **values)


def test_it_queues_a_build_that_needs_no_device(told: list[Any]) -> None:
    made = compilations.compile_run(measured_run(), {"source": "run"}, None)
    assert (made.status, made.stage, made.source) == ("queued", "build", "run")
    assert told == [(made.pk, celery.COMPILE_QUEUE)]
    assert made.claim(), "although its run is using the device"


def test_one_that_chooses_inside_the_network_waits_for_the_device(told: list[Any]) -> None:
    run = measured_run()
    made = compilations.compile_run(run, {"choose": "inside"}, None)
    assert (made.stage, made.waits_for, told) == ("choose", "cpu", [])
    assert not made.claim(), "its run is using the device"
    ended(run)
    jobs.enqueue(made)
    assert told == [(made.pk, celery.queue_of("cpu"))]
    assert made.claim()
    assert list(Compilation.objects.on_device()) == [made]
    assert not make_run(name="another").claim(), "a run would disturb it"


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"device": "rpc:127.0.0.1:9190/board"}, "not on rpc:127.0.0.1:9190/board"),
        ({"device": "cuda:0", "target": {"kind": "cuda"}}, "not on cuda:0"),
    ],
)
def test_it_chooses_inside_the_network_only_on_cpus_here(values: dict[str, Any], why: str) -> None:
    with pytest.raises(Invalid) as raised:
        compilations.compile_run(ended(measured_run(**values)), {"choose": "inside"}, None)
    assert why in raised.value.fields["choose"]
    assert not Compilation.objects.exists()


def test_only_libraries_for_cuda_have_graphs(told: list[Any]) -> None:
    on_gpu, on_cpu = tuned_for_cuda(), ended(measured_run())
    wanted = [(on_gpu, {}), (on_gpu, {"cuda_graphs": "off"}), (on_cpu, {}), (on_cpu, {"cuda_graphs": "on"})]
    made = [compilations.compile_run(run, given, None) for run, given in wanted]
    assert [one.cuda_graphs for one in made] == [0, None, None, None]
    assert made[0].to_dict()["cuda_graphs"] is None, "it isn't built yet"


def batch(number: int, **values: Any) -> Run:
    """An ended run of the MLP with that batch."""
    return ended(measured_run(network=stored("mlp", {"batch": number}, None), name=f"batch {number}", **values))


def test_a_library_for_any_batch_has_the_best_run_of_each(told: list[Any]) -> None:
    own, better, worse, elsewhere = batch(1), batch(8), batch(8), batch(4)
    Run.objects.filter(pk=better.pk).update(estimated_latency_s=1e-3)
    Run.objects.filter(pk=worse.pk).update(estimated_latency_s=2e-3)
    Run.objects.filter(pk=elsewhere.pk).update(target_fingerprint="of another CPU")
    batch(16, options={"precision": "bfloat16"})
    batch(32, project=Project.objects.create(name="elsewhere"))
    ended(measured_run(network=stored("mlp", {"batch": 64}, None), latencies=[(0, None)]))
    made = compilations.compile_run(own, {"batches": "all"}, None)
    assert [(one["batch"], one["run"], one["network"]) for one in made.batches] == [
        (1, own.pk, own.tuned_network.pk),
        (8, better.pk, better.tuned_network.pk),
    ]


@pytest.mark.parametrize(
    ("batches", "data", "field", "why"),
    [
        ([1], {}, "batches", "No run of the project has tuned other batches of the network"),
        ([1, 8], {"choose": "inside"}, "choose", "only of a library for one batch"),
    ],
)
def test_a_library_for_any_batch_is_refused_by_name(
    batches: list[int], data: dict[str, str], field: str, why: str
) -> None:
    run, *_ = map(batch, batches)
    with pytest.raises(Invalid) as refused:
        compilations.compile_run(run, {"batches": "all"} | data, None)
    assert why in refused.value.fields[field]
    assert not Compilation.objects.exists()


@pytest.mark.parametrize(
    ("data", "field"), [({"source": "best"}, "source"), ({"sauce": "run"}, "sauce"), ({"source": 1}, "source")]
)
def test_it_refuses_options_by_name(data: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as raised:
        compilations.compile_run(measured_run(), data, None)
    assert list(raised.value.fields) == [field]
    assert not Compilation.objects.exists()


def test_it_refuses_a_run_without_a_valid_record() -> None:
    for run in (make_run(), measured_run([(0, None)], device="b")):
        with pytest.raises(Conflict, match="no valid record yet"):
            compilations.compile_run(run, {}, None)


def test_it_refuses_records_of_another_tvm() -> None:
    run = measured_run(versions={**PINS, "apache-tvm": "0.26.0"})
    with pytest.raises(Conflict, match=r"made by apache-tvm 0.26.0, but apache-tvm 0.27.0.post1 and apache-tvm-ffi"):
        compilations.compile_run(run, {}, None)
    assert artifacts.compile_trouble(measured_run(device="b", versions=dict(PINS))) is None


def test_it_refuses_a_synthetic_run() -> None:
    with pytest.raises(Conflict, match="synthetic"):
        compilations.compile_run(measured_run(synthetic=True), {}, None)


def test_a_queued_one_is_cancelled_at_once(told: list[Any]) -> None:
    made = compilations.compile_run(measured_run(), {}, None)
    assert compilations.cancel(made).status == "cancelled"
    assert not made.claim()
    with pytest.raises(Conflict, match="is cancelled"):
        compilations.cancel(made)


def test_a_benchmark_that_is_cancelled_while_it_waits_leaves_the_library(told: list[Any]) -> None:
    compilation = make_compilation(ended(measured_run()))
    compilations.benchmark(compilation, None)
    assert told == [(compilation.pk, celery.queue_of("cpu"))]
    assert compilations.cancel(compilation).status == "finished"
    assert compilation.verified


def test_it_benchmarks_only_a_published_compilation_that_has_ended(told: list[Any]) -> None:
    run = ended(measured_run())
    with pytest.raises(Conflict, match="no library"):
        compilations.benchmark(make_compilation(run, sha256=None, status=Status.FAILED), None)
    with pytest.raises(Conflict, match="is queued"):
        compilations.benchmark(waiting(run), None)
    assert told == []


def test_a_device_measures_one_thing_at_a_time() -> None:
    run = ended(measured_run())
    proof, next_run = waiting(run), make_run()
    assert proof.claim()
    assert not waiting(run).claim()
    assert not next_run.claim(), "measurements of both would disturb each other"
    assert make_run(device="cuda:0").claim()
    assert proof.move(Status.RUNNING, to=Status.FINISHED)
    assert next_run.claim()
    late = waiting(run)
    assert not late.claim()
    assert late.status == "queued"


def test_a_proof_whose_job_died_does_not_block_the_device() -> None:
    proof = waiting(ended(measured_run()))
    assert proof.claim()
    Compilation.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=1))
    assert make_run().claim()


def test_it_waits_for_the_device_until_shutdown() -> None:
    run = measured_run()
    proof, shutdown = waiting(run), threading.Event()
    assert not proof.wait_and_claim(shutdown, wait=False)
    soon = time.monotonic() + 0.2
    ending = when(lambda: time.monotonic() > soon, lambda: Run.objects.update(status=Run.Status.FINISHED))
    assert proof.wait_and_claim(shutdown, poll_s=0.05)
    ending.join()
    shutdown.set()
    assert not waiting(run).wait_and_claim(shutdown)


def test_the_sweep_enqueues_again_what_the_broker_lost(told: list[Any]) -> None:
    run = measured_run()
    build = waiting(run, stage=Stage.BUILD, sha256=None)
    proof = waiting(run)
    sweeping.sweep()
    assert told == [(build.pk, "compile")], "the device is busy with the run"
    ended(run)
    sweeping.sweep()
    assert told[1:] == [(proof.pk, celery.queue_of("cpu"))], "the build was enqueued just now"


def test_the_sweep_ends_compilations_that_lost_their_worker(told: list[Any]) -> None:
    run = ended(measured_run())
    old = {"heartbeat_at": timezone.now() - timedelta(minutes=1), "lease": "a"}
    building = make_compilation(
        run, status=Status.RUNNING, stage=Stage.BUILD, sha256=None, verified=None, phase="building", **old
    )
    proving = make_compilation(run, status=Status.RUNNING, verified=None, **old)
    leaving = make_compilation(run, status=Status.CANCELLING, verified=None, **old)
    alive = make_compilation(run, status=Status.RUNNING, lease="b", heartbeat_at=timezone.now())
    building.unpublished.mkdir(parents=True)
    publish(proving)
    sweeping.sweep()
    for one in (building, proving, leaving, alive):
        one.refresh_from_db()
    assert [one.status for one in (building, proving, leaving, alive)] == ["failed", "failed", "cancelled", "running"]
    assert (building.phase, building.error) == (None, "The worker stopped responding. Compile again.")
    assert proving.error == "The worker stopped responding. Benchmark again."
    assert not building.unpublished.exists()
    assert proving.library.exists()


def test_the_sweep_removes_what_a_deleted_run_left() -> None:
    kept, gone = make_compilation(), make_compilation(ended(measured_run()))
    folders = kept.folder, gone.folder
    for one in (kept, gone):
        publish(one)
        os.utime(one.folder, (time.time() - 2 * compilations.OLD.total_seconds(),) * 2)
    gone.run.delete()
    sweeping.sweep()
    assert [folder.exists() for folder in folders] == [True, False]


def test_a_job_runs_the_stage_in_its_message(told: list[Any], compiler: Any) -> None:
    made = compilations.compile_run(ended(measured_run()), {}, None)
    jobs.compile_library(made.pk)
    assert told[1:] == [(made.pk, celery.queue_of("cpu"))], "the proof goes to the device's queue"
    jobs.compile_library(made.pk)
    jobs.compile_library(made.pk)
    jobs.compile_library(99)
    made.refresh_from_db()
    assert (made.status, made.verified) == ("finished", True)
    assert len(told) == 2


@pytest.mark.parametrize(("target", "device"), [({"kind": "llvm"}, "cpu"), ({"kind": "cuda"}, "cuda:0")])
def test_a_library_of_a_run_that_others_tuned_is_measured_on_this_machines_device(
    told: list[Any], target: dict[str, Any], device: str
) -> None:
    run = make_run(device="", target=target, origin="imported", status="finished")
    proof = waiting(run, stage=Stage.PROVE)
    assert proof.waits_for == device
    assert list(Compilation.objects.waiting_for(device)) == [proof]
    jobs.enqueue(proof)
    assert told == [(proof.pk, celery.queue_of(device))]
    busy = measured_run(device=device)
    assert not proof.claim()
    ended(busy)
    Compilation.objects.update(enqueued_at=None)
    assert list(Compilation.objects.forgotten()) == [proof]
    assert proof.claim()
    assert not Run.objects.device_is_free(device)
    assert Run.objects.device_is_free("vulkan:0")
    assert [one.pk for one in Run.objects.occupying()] == [run.pk]
