"""Lock files between processes."""

from __future__ import annotations

import threading
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


def test_those_who_wait_take_turns_although_each_holder_removes_the_file(tmp_path: Path) -> None:
    inside: list[int] = []
    most: list[int] = []

    def take_turns() -> None:
        for _ in range(50):
            with lock_file(tmp_path / "some.lock"):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=take_turns) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(most), max(most)) == (200, 1)
