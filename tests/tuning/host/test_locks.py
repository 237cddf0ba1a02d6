"""Lock files between processes."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from tuning.host.locks import lock_file


def test_one_process_holds_it_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "some.lock"
    with lock_file(path), pytest.raises(BlockingIOError), lock_file(path, wait=False):
        pass
    with lock_file(path, wait=False):
        pass


def test_the_file_is_removed_afterwards(tmp_path: Path) -> None:
    with lock_file(tmp_path / "some.lock"):
        assert list(tmp_path.iterdir()) == [tmp_path / "some.lock"]
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_its_holder_removes_before_we_lock_it_excludes_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "some.lock"
    flock = fcntl.flock
    removed: list[Path] = []

    def remove_first(fd: int, operation: int) -> None:
        if not removed:
            path.unlink()
            removed.append(path)
        flock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    with lock_file(path), pytest.raises(BlockingIOError), lock_file(path, wait=False):
        pass
    assert removed
