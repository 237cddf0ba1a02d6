"""Some days after they were deleted, runs are removed for good, with everything that belongs to them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from tests.world import make_compilation, make_run, measured_run
from tuning.actions import curation, purging, sweeping
from tuning.engines.wire.protocol import Ranked
from tuning.engines.wire.protocol import Round as RoundEvent
from tuning.models import (
    Compilation,
    Ranking,
    Record,
    ReferenceMeasurement,
    Round,
    Run,
    Tag,
    Task,
    Trial,
    TrialError,
)
from tuning.validation import Conflict
from tuning.work.recorder import Recorder

pytestmark = pytest.mark.django_db


def ended(**values: Any) -> Run:
    run = measured_run([(0, 2e-3), (1, 3e-3), (0, None), (0, 1e-3)], **values)
    ranked = Ranked(0, 4, 3.0, 0.5, [0.1] * 4, [1e-3] * 4)
    Recorder(run).record([*(RoundEvent(0, done, 1, done, done + 1.0) for done in range(4)), ranked])
    run.move("running", to="finished")
    run.work_dir.mkdir(parents=True)
    run.console_log.write_text("printed")
    return run


def deleted(days: float, **values: Any) -> Run:
    run = ended(**values)
    curation.delete(run)
    Run.everything.filter(pk=run.pk).update(deleted_at=timezone.now() - timedelta(days=days))
    return run


def test_it_keeps_runs_that_can_be_restored(settings: Any) -> None:
    settings.KEEP_DELETED_DAYS = 2.0
    kept, recent = ended(), deleted(1.9)
    sweeping.sweep()
    assert {run.pk for run in Run.everything.all()} == {kept.pk, recent.pk}
    assert recent.console_log.exists()
    curation.restore(recent)
    assert Run.objects.get(pk=recent.pk).trials.count() == 4


def test_it_removes_everything_that_belongs_to_the_run_and_nothing_else(settings: Any) -> None:
    settings.KEEP_DELETED_DAYS = 2.0
    kept, gone = ended(), deleted(2.1)
    gone.tags.create(name="old")
    make_compilation(gone)
    ReferenceMeasurement.objects.create(run=gone, after=1, at_s=20.0, latency_s=1e-3)
    sweeping.sweep()
    assert list(Run.everything.all()) == [kept]
    assert {model.objects.count() for model in (Tag, Compilation, ReferenceMeasurement)} == {0}
    assert (Trial.objects.count(), Task.objects.count(), TrialError.objects.count()) == (4, 2, 1)
    assert Record.objects.count() == 3
    assert (Round.objects.count(), Ranking.objects.count()) == (4, 1)
    assert not gone.work_dir.exists()
    assert kept.console_log.exists()


def test_a_large_run_is_removed_in_steps_and_cannot_be_restored(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.KEEP_DELETED_DAYS = 0.0
    run = deleted(1)
    monkeypatch.setattr(purging, "BATCH", 3)
    monkeypatch.setattr(purging, "AT_ONCE_S", -1.0)
    assert purging.purge() == 0
    with pytest.raises(Conflict):
        curation.restore(run)
    monkeypatch.setattr(purging, "AT_ONCE_S", 60.0)
    assert purging.purge() == 1
    assert not Run.everything.exists()


def test_a_folder_that_cannot_be_removed_is_logged(
    settings: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings.KEEP_DELETED_DAYS = 0.0
    run = deleted(1)

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("shutil.rmtree", refuse)
    assert purging.purge() == 1
    assert str(run.work_dir) in caplog.text


def test_a_run_without_a_folder_is_removed(settings: Any) -> None:
    settings.KEEP_DELETED_DAYS = 0.0
    make_run(status="stopped", deleted_at=timezone.now() - timedelta(days=1))
    assert purging.purge() == 1
