"""While the disk is full nothing can be saved, and what is stored stays as it is."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError

from tests.faults.answers import answers_to
from tests.faults.disks import filled, small_disk
from tests.tuning.engines.running import Engine, lines, start
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
    page, answer = answers_to(OperationalError("database or disk is full"), monkeypatch)
    assert page == (507, f"{DISK_FULL}\n")
    assert answer == (507, {"code": "disk_full", "message": DISK_FULL})


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
