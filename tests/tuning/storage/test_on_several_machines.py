"""What one machine receives or builds, another one reads: models, libraries, imports, streams. Nothing is left behind."""

from __future__ import annotations

import io
import json
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.files import File
from django.utils import timezone

from tests.compile_fixtures import Compiler
from tests.storage_fixtures import On
from tests.world import make_run, measured_run, task_infos
from tuning.actions import compilations, sweeping
from tuning.actions.incoming import imports
from tuning.actions.networks import uploading
from tuning.engines.wire.inspecting import Inspected
from tuning.engines.wire.protocol import TensorInfo
from tuning.host import sandbox
from tuning.models import Chunk, Compilation, Import, Project, Run, StoredFile
from tuning.queue import jobs
from tuning.reads import artifacts, downloads
from tuning.storage import Store
from tuning.work import importing, inspection
from tuning.work.compiling import carry_out

pytestmark = pytest.mark.django_db(transaction=True)
NEVER = threading.Event()


@pytest.fixture(autouse=True)
def nobody_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "enqueue", lambda _: None)
    monkeypatch.setattr(sandbox, "PULSE_S", 0.05)


def whole(file: Any) -> bytes:
    return b"".join(file.pieces)


def age() -> None:
    """Let what there is be old enough to be swept."""
    StoredFile.objects.update(changed_at=timezone.now() - timedelta(hours=2))


def test_a_model_is_fetched_by_the_machine_that_needs_it(
    shared: Store, machine: On, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Inspected([TensorInfo("x", [1, 3], "float32")], 7, {"Conv": 2}, task_infos())
    monkeypatch.setattr(inspection, "inspect", lambda *_: found)
    project = Project.objects.default()
    network, _ = uploading.upload(File(io.BytesIO(b"model" * 999), "net.onnx"), project, None)
    again, new = uploading.upload(File(io.BytesIO(b"model" * 999), "other.onnx"), project, None)
    assert (again, new) == (network, False)
    there = machine("there")
    spec = network.spec()
    assert spec.file
    assert Path(spec.file.path).is_relative_to(there)
    assert Path(spec.file.path).read_bytes() == b"model" * 999
    uploading.delete(network)
    assert (StoredFile.objects.count(), Chunk.objects.count(), list((there / "networks").iterdir())) == (0, 0, [])


def test_an_upload_that_is_refused_stores_nothing(shared: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Inspected:
        raise ZeroDivisionError

    monkeypatch.setattr(inspection, "inspect", fail)
    with pytest.raises(ZeroDivisionError):
        uploading.upload(File(io.BytesIO(b"model"), "net.onnx"), Project.objects.default(), None)
    assert not StoredFile.objects.exists()


def test_a_library_is_verified_and_downloaded_on_other_machines(shared: Store, machine: On, compiler: Compiler) -> None:
    run = measured_run()
    run.move(Run.Status.RUNNING, to=Run.Status.FINISHED)
    queued = compilations.compile_run(run, {}, None)
    for name, status in (("builder", "queued"), ("prover", "finished")):
        machine(name)
        compilation = Compilation.objects.shown().get(pk=queued.pk)
        assert compilation.claim()
        assert carry_out(compilation, NEVER) == status
    built = Compilation.objects.shown().get(pk=queued.pk)
    assert built.verified
    machine("web")
    assert whole(artifacts.library_file(built)) == b"whole"
    assert json.loads(whole(artifacts.manifest_file(built)))
    assert not built.folder.exists()
    Compilation.objects.all().delete()
    age()
    compilations.tidy()
    assert not StoredFile.objects.exists()


@pytest.mark.parametrize("how", ["kill", "full"])
def test_the_log_of_a_build_that_failed_is_read_anywhere_and_no_library_is_stored(
    shared: Store, machine: On, compiler: Compiler, how: str
) -> None:
    run = measured_run()
    run.move(Run.Status.RUNNING, to=Run.Status.FINISHED)
    queued = compilations.compile_run(run, {}, None)
    compiler(how)
    compilation = Compilation.objects.shown().get(pk=queued.pk)
    assert compilation.claim()
    assert carry_out(compilation, NEVER) == "failed"
    assert not compilation.folder.exists(), "what counts is stored"
    machine("web")
    assert [name.rpartition("/")[2] for name in StoredFile.objects.values_list("pk", flat=True)] == ["console.log"]
    assert b"LLVM ERROR" in whole(artifacts.log_file(compilation))


def ansor(latency_s: float) -> str:
    """A record of auto_scheduler v0.6."""
    task = [json.dumps(["a" * 32, [8, 8], [8, 8]]), "llvm", [4, 64, 64, 0, 0, 0, 0, 0], "", 1, []]
    return json.dumps({"i": [task, [[], []]], "r": [[latency_s], 0, 1.5, 1_600_000_000], "v": "v0.6"})


def uploaded(*latencies: float) -> Import:
    text = "".join(f"{ansor(latency_s)}\n" for latency_s in latencies)
    return imports.start([("log.json", File(io.BytesIO(text.encode())))], {}, None)


def test_logs_that_one_machine_received_are_imported_by_another(shared: Store, machine: On) -> None:
    source = uploaded(2e-3, 1e-3)
    machine("worker")
    assert source.claim()
    assert importing.carry_out(source, importing.uploaded(source), NEVER) == "finished"
    assert [name for name in StoredFile.objects.values_list("pk", flat=True) if name.startswith("imports/")] == []
    machine("web")
    run = source.runs.get()
    lines = whole(downloads.record_file(run, "native", "all")).decode().splitlines()
    assert lines == [ansor(2e-3), ansor(1e-3)]


def test_uploads_of_imports_that_ended_are_removed(shared: Store, machine: On) -> None:
    source = uploaded(1e-3)
    assert StoredFile.objects.count() == 1
    imports.cancel(source)
    assert not StoredFile.objects.exists()
    uploaded(1e-3)
    Import.objects.all().delete()
    imports.tidy()
    assert StoredFile.objects.count() == 1, "its row may not be committed yet"
    age()
    imports.tidy()
    assert not StoredFile.objects.exists()


def test_a_run_is_removed_with_what_is_stored_of_it(shared: Store, settings: Any) -> None:
    settings.KEEP_DELETED_DAYS = 0.0
    gone, kept = (make_run(status="stopped") for _ in range(2))
    for run in (gone, kept):
        shared.append(run.console_log, 0, b"printed")
    Run.objects.filter(pk=gone.pk).update(deleted_at=timezone.now() - timedelta(days=1))
    sweeping.sweep()
    assert list(StoredFile.objects.values_list("pk", flat=True)) == [f"runs/{kept.work_dir.name}.log"]
