"""A real worker is killed in the middle of an import: nothing of it is left, and the next worker imports the same files."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django import conf
from django.core.files.uploadedfile import SimpleUploadedFile

from tests.tuning.work.test_importing import ansor
from tuning.actions import sweeping
from tuning.actions.incoming import imports
from tuning.engines.wire.lifeline import die_with
from tuning.models import Import, Run, Trial
from tuning.models.imported import imports_dir
from tuning.queue.celery import EXTRACT_QUEUE, app
from tuning.storage import store

pytestmark = pytest.mark.django_db(transaction=True)
RECORDS = 40_000
"""Four transactions' worth: the worker is killed after the first."""


@pytest.fixture
def worker(database_env: dict[str, str]) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    tests = os.getpid()

    def start() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tuning.queue.worker", "extract", EXTRACT_QUEUE]
        started.append(
            subprocess.Popen(
                command,
                env=database_env,
                cwd=conf.settings.BASE_DIR,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                preexec_fn=lambda: die_with(tests),  # noqa: PLW1509 - there are no threads here
            )
        )
        return started[-1]

    yield start
    for process in started:
        process.terminate()
        process.wait(30)
    app.control.purge()


def upload(log: bytes) -> Import:
    return imports.start([("log.json", SimpleUploadedFile("log.json", log))], {}, None)


def stored(folder: Path) -> list[Path]:
    """What is in the folder, here or where the site keeps its files."""
    return store().old(folder, timedelta(0))


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_nothing_is_left_and_the_files_can_be_imported_again(
    worker: Callable[[], subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = b"\n".join(ansor(1e-3 / number).encode() for number in range(1, RECORDS + 1))
    killed = upload(log)
    process = worker()
    wait_until(lambda: Run.objects.filter(trials_done__gt=0).exists())
    process.kill()
    process.wait()
    half = Run.objects.get()
    killed.refresh_from_db()
    assert 0 < half.trials_done < RECORDS
    assert (half.status, killed.status) == ("running", "running")
    assert stored(half.work_dir)
    assert stored(killed.uploads)

    with monkeypatch.context() as patch:
        patch.setattr("tuning.models.lifecycle.LEASE", timedelta(seconds=-5))
        sweeping.sweep()
    killed.refresh_from_db()
    assert (killed.status, killed.error) == ("failed", "The worker stopped responding. Import the files again.")
    assert not Run.everything.exists()
    assert not Trial.objects.exists()
    assert not stored(half.work_dir)
    assert not stored(imports_dir())

    again = upload(log)
    worker()
    wait_until(lambda: Import.objects.get(pk=again.pk).has_ended)
    again.refresh_from_db()
    assert (again.status, again.records) == ("finished", RECORDS)
    assert Run.objects.get().trials_done == RECORDS
