"""An extraction from claim to end, whatever happens to the job."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.files import File
from django.utils import timezone

from tests import models
from tests.world import make_extraction, make_network, task_infos
from tuning.actions import runs, sweeping
from tuning.actions.networks import extracting, uploading
from tuning.actions.networks.chosen import stored
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.inspecting import Inspected
from tuning.engines.wire.protocol import TensorInfo
from tuning.host import sandbox
from tuning.models import Extraction, Project
from tuning.queue import jobs
from tuning.validation import Invalid
from tuning.work import inspection
from tuning.work.extracting import extract
from tuning.work.supervisor import supervise

pytestmark = pytest.mark.django_db(transaction=True)
Status = Extraction.Status
Script = Callable[..., None]


@pytest.fixture
def queued() -> Extraction:
    return make_extraction(make_network(flop=None, parameters=None), status=Status.QUEUED)


@pytest.fixture
def plays(monkeypatch: pytest.MonkeyPatch) -> Script:
    """Replace the inspection."""

    def play(deed: Callable[[Any], Any]) -> None:
        monkeypatch.setattr(inspection, "inspect", lambda _network, _target, on_step: deed(on_step))

    return play


def found(on_step: Any) -> Inspected:
    if not on_step("Legalizing"):
        raise sandbox.Abandoned
    return Inspected([TensorInfo("x", [1], "float32")], 7, {"Conv": 2}, task_infos())


def carried_out(extraction: Extraction, shutdown: threading.Event | None = None) -> str:
    assert extraction.claim()
    return extract(extraction, shutdown or threading.Event())


def test_it_stores_the_tasks_and_describes_the_network(queued: Extraction, plays: Script) -> None:
    plays(found)
    assert carried_out(queued) == "finished"
    tasks = list(queued.tasks.all())
    assert [(task.index, task.name, task.weight) for task in tasks] == [
        (info.index, info.name, info.weight) for info in task_infos()
    ]
    assert tasks[0].args[0] == {"name": "x", "shape": [1, 784], "dtype": "float32"}
    queued.network.refresh_from_db()
    assert (queued.network.parameters, queued.network.operators) == (7, {"Conv": 2})
    assert queued.network.flop == sum(task.total_flop for task in tasks)
    queued.refresh_from_db()
    assert (queued.step, queued.error) == ("", None)
    assert queued.finished_at


def test_it_reports_its_step_and_renews_the_lease(queued: Extraction, plays: Script) -> None:
    seen: list[str] = []

    def look(on_step: Any) -> Inspected:
        Extraction.objects.update(heartbeat_at=timezone.now() - timedelta(hours=1))
        on_step("Describing task 1 of 2")
        queued.refresh_from_db()
        seen.extend([queued.status, queued.step])
        assert not Extraction.objects.abandoned().exists()
        return found(on_step)

    plays(look)
    assert carried_out(queued) == "finished"
    assert seen == ["running", "Describing task 1 of 2"]


def test_it_stores_why_there_are_no_tasks(queued: Extraction, plays: Script) -> None:
    def refuse(_on_step: Any) -> Inspected:
        raise Refused("It needs more than 4 MiB.")

    plays(refuse)
    assert carried_out(queued) == "failed"
    queued.refresh_from_db()
    assert queued.error == "It needs more than 4 MiB."
    assert not queued.tasks.exists()


def test_an_internal_error_is_reported(queued: Extraction, plays: Script) -> None:
    plays(lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        carried_out(queued)
    queued.refresh_from_db()
    assert queued.status == "failed"
    assert "ZeroDivisionError" in str(queued.error)


def test_at_shutdown_it_is_queued_again(queued: Extraction, plays: Script) -> None:
    shutdown = threading.Event()
    shutdown.set()
    plays(found)
    assert carried_out(queued, shutdown) == "queued"
    assert Extraction.objects.forgotten().get() == queued


def test_a_job_that_lost_the_lease_stores_nothing(queued: Extraction, plays: Script) -> None:
    def taken(on_step: Any) -> Inspected:
        result = found(on_step)
        Extraction.objects.update(status=Status.FAILED, error="gone")
        return result

    plays(taken)
    assert carried_out(queued) == "failed"
    assert not queued.tasks.exists()


def test_an_extraction_that_is_deleted_meanwhile_is_given_up(queued: Extraction, plays: Script) -> None:
    def deleted(on_step: Any) -> Inspected:
        uploading.delete(queued.network)
        return found(on_step)

    plays(deleted)
    assert carried_out(queued) == "gone"


def test_only_one_job_claims_it(queued: Extraction) -> None:
    assert queued.claim()
    assert not Extraction.objects.get().claim()


def test_the_sweep_ends_abandoned_extractions_and_enqueues_forgotten_ones(
    queued: Extraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Extraction] = []
    monkeypatch.setattr(jobs, "enqueue", told.append)
    sweeping.sweep()
    assert told == [queued]
    assert queued.claim()
    sweeping.sweep()
    assert (Extraction.objects.get().status, len(told)) == ("running", 1)
    Extraction.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=5))
    sweeping.sweep()
    queued.refresh_from_db()
    assert queued.status == "failed"
    assert "worker" in str(queued.error)


@pytest.mark.tvm
def test_tasks_before_a_run_are_the_tasks_of_the_run(settings: Any, tmp_path: Any) -> None:
    """With the same indices, since users choose tasks by these."""
    settings.VAR = tmp_path
    network, _ = uploading.upload(
        File(io.BytesIO(models.dense().SerializeToString()), "dense.onnx"), Project.objects.default(), None
    )
    before, due = extracting.requested(network, "this", None)
    assert due
    assert carried_out(before) == "finished"
    run = runs.launch(
        {"network": "dense", "trials": 4, "trials_per_batch": 4, "seed": 1, "min_repeat_ms": 10}, None, enqueue=False
    )
    assert run.claim()
    assert supervise(run, threading.Event()) == "finished", run.error
    columns = ("index", "name", "weight", "flop", "workload_hash", "args")
    assert list(before.tasks.values_list(*columns)) == list(run.tasks.values_list(*columns))


@pytest.mark.tvm
def test_a_missing_file_is_reported(queued: Extraction) -> None:
    assert carried_out(queued) == "failed"
    queued.refresh_from_db()
    assert queued.error == "The model's file can't be read: No such file or directory."


@pytest.mark.tvm
def test_a_built_in_network_is_inspected_too() -> None:
    made, _ = extracting.requested(stored("mlp", {"batch": 1, "dtype": "float32"}, None), "this", None)
    assert carried_out(made) == "finished"
    made.network.refresh_from_db()
    assert made.network.parameters == 784 * 128 + 128 + 1280 + 10
    assert made.network.operators == {"matmul": 2, "add": 2, "nn.relu": 1}
    assert [task.weight for task in made.tasks.all()] == [1, 1]


@pytest.mark.rare
@pytest.mark.tvm
def test_it_doesnt_need_the_targets_device() -> None:
    network = stored("mlp", {"batch": 1, "dtype": "float32"}, None)
    made, due = extracting.requested(network, "nvidia/nvidia-a100", None)
    assert due
    assert made.target["kind"] == "cuda"
    assert carried_out(made) == "finished", made.error
    assert made.tasks.count() == 2
    with pytest.raises(Invalid) as refused:
        extracting.requested(network, "nvidia/no-such-card", None)
    assert list(refused.value.fields) == ["target"]
