"""While the disk is full nothing can be saved, and what is stored stays as it is."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client

from tests.faults.disks import filled, small_disk
from tests.tuning.engines.running import Engine, lines, start
from tests.world import make_run, make_user
from tuning.engines.wire.protocol import Failed, Finished, TrialMeasured
from tuning.host.reachable import DISK_FULL, is_disk_full


@pytest.mark.tvm
def test_an_engine_ends_with_the_reason_and_continues_where_it_was(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", mib=16) as disk:
        work_dir, console = disk / "work", disk / "console"
        with Engine(start(work_dir), console) as engine:
            engine.until(TrialMeasured, nth=2)
            with filled(disk):
                last = engine.to_the_end()
        assert isinstance(last, Failed)
        assert last.error.startswith("The disk with the run's files is full: ")
        assert [trial.error for trial in engine.trials if trial.error] == [], "no candidate is to blame"
        assert 2 <= len(engine.trials) < 8
        with Engine(start(work_dir, trials_done=len(engine.trials)), console) as again:
            assert again.to_the_end() == Finished("budget")
        assert len(lines(work_dir)) == 8


@pytest.mark.django_db
def test_the_api_and_pages_say_that_the_disk_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OperationalError("database or disk is full")

    client = Client(raise_request_exception=False)
    client.force_login(make_user("admin"))
    monkeypatch.setattr("tuning.actions.runs.stop", full)
    run = make_run()
    page, answer = (client.post(path) for path in (f"/runs/{run.pk}/stop/", f"/api/v1/runs/{run.pk}/stop"))
    assert (page.status_code, page.content.decode()) == (507, f"{DISK_FULL}\n")
    assert (answer.status_code, answer.json()["error"]) == (507, {"code": "disk_full", "message": DISK_FULL})


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), True),
        (OperationalError("database or disk is full"), True),
        (OperationalError('could not extend file "base/1/2": No space left on device'), True),
        (OperationalError("database is locked"), False),
        (OSError(errno.EMFILE, "Too many open files"), False),
        (ValueError("disk is full"), False),
        (None, False),
    ],
)
def test_it_knows_a_full_disk_by_its_error(error: Any, expected: bool) -> None:
    assert is_disk_full(error) is expected
