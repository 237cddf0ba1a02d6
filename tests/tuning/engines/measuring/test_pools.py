"""Calls in worker processes, of which some are killed from outside, and some end by themselves."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import psutil
import pytest

from tuning.engines.measuring import pools
from tuning.engines.measuring.outcomes import WorkerError
from tuning.engines.measuring.pools import ATTEMPTS, Ended, TimedOut, Workers


@pytest.fixture(scope="module")
def context() -> Iterator[ForkServerContext]:
    """A fork server without TVM, which starts quickly, also when a test has killed it."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload([])
    yield server
    forkserver._forkserver._stop()  # type: ignore[attr-defined]


@pytest.fixture
def workers(context: ForkServerContext) -> Iterator[Workers]:
    with Workers(context, 2) as workers:
        yield workers


def count(folder: Path, name: str) -> int:
    """How often this call has been made, this time included."""
    with (folder / name).open("a") as made:
        made.write(".")
    return (folder / name).stat().st_size


def answer(folder: Path, name: str) -> tuple[str, int]:
    return name, count(folder, name)


def answer_late(folder: Path, name: str) -> tuple[str, int]:
    time.sleep(0.5)
    return answer(folder, name)


def kill_server_once(folder: Path, name: str) -> tuple[str, int]:
    times = count(folder, name)
    if times == 1:
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
    return name, times


def kill_itself(folder: Path, name: str, up_to: int) -> tuple[str, int]:
    times = count(folder, name)
    if times <= up_to:
        os.kill(os.getpid(), signal.SIGKILL)
    return name, times


def kill_another(folder: Path, name: str) -> tuple[str, int]:
    """Kill the workers that have nothing to do."""
    for process in psutil.Process(os.getppid()).children():
        if process.pid != os.getpid():
            process.kill()
    return answer_late(folder, name)


def crash(folder: Path, name: str) -> None:
    count(folder, name)
    os.abort()


def refuse() -> None:
    raise ValueError("no such intrinsic")


def hang() -> None:
    time.sleep(3600)


def made(workers: Workers, *calls: tuple[Any, ...], timeout_s: float = 30.0) -> list[Any]:
    results = dict(workers.results(calls, timeout_s))
    return [results[index] for index in range(len(calls))]


def test_calls_in_flight_when_the_fork_server_is_killed_are_made_again(workers: Workers, tmp_path: Path) -> None:
    killing, other, later = made(
        workers, (kill_server_once, tmp_path, "a"), (answer_late, tmp_path, "b"), (answer, tmp_path, "c")
    )
    assert killing == ("a", 2)
    assert other[0] == "b"
    assert later == ("c", 1)


def test_a_worker_that_is_killed_costs_no_call(workers: Workers, tmp_path: Path) -> None:
    assert made(workers, (kill_itself, tmp_path, "a", 1), (answer, tmp_path, "b")) == [("a", 2), ("b", 1)]


def test_a_call_whose_worker_is_always_killed_is_given_up(workers: Workers, tmp_path: Path) -> None:
    killed, other = made(workers, (kill_itself, tmp_path, "a", 100), (answer, tmp_path, "b"))
    assert killed == Ended("was killed by SIGKILL (Killed)", killed=True)
    assert other == ("b", 1)
    assert count(tmp_path, "a") == ATTEMPTS + 1


def test_a_worker_that_is_killed_while_it_is_idle_is_replaced(workers: Workers, tmp_path: Path) -> None:
    assert made(workers, (answer, tmp_path, "a"), (answer, tmp_path, "b")) == [("a", 1), ("b", 1)]
    assert made(workers, (kill_another, tmp_path, "c"))[0][0] == "c"
    assert made(workers, (answer, tmp_path, "d"), (answer, tmp_path, "e")) == [("d", 1), ("e", 1)]


def test_a_call_that_ends_its_worker_itself_is_made_once(workers: Workers, tmp_path: Path) -> None:
    crashed, refused, other = made(workers, (crash, tmp_path, "a"), (refuse,), (answer, tmp_path, "b"))
    assert crashed == Ended("was killed by SIGABRT (Aborted)", killed=False)
    assert refused == WorkerError("ValueError: no such intrinsic")
    assert other == ("b", 1)
    assert count(tmp_path, "a") == 2


def test_only_a_call_that_takes_too_long_is_stopped_whatever_the_clock_says(
    workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = workers.results([(answer_late, tmp_path, "a"), (hang,)], 3.0)
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() + 3600)
    assert next(calls) == (0, ("a", 1))
    monkeypatch.setattr(time, "time", lambda: clock() - 3600)
    assert list(calls) == [(1, TimedOut())]


def test_a_call_without_any_end_is_given_up(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is killed between taking a call and saying so leaves one that neither ends nor times out."""
    monkeypatch.setattr(pools, "GRACE_S", -29.5)
    assert made(workers, (hang,), timeout_s=30.0) == [Ended("gave no answer", killed=True)]


def test_no_calls_need_no_worker(workers: Workers) -> None:
    assert list(workers.results([], 1.0)) == []
