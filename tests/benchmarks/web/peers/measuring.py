"""Fills a peer, starts its server, and asks."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from tuning.engines.wire.lifeline import die_with

from .catalog import Peer, Question
from .serving import NoAnswer, Server, free_port, serving

AGAIN = 5
"""Requests after the first one."""
QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "GIT_PYTHON_REFRESH": "quiet",
}
"""Turns off MLflow's background work."""


class Asked(msgspec.Struct):
    """A question to a peer with this many trials. `missing` says why an answer is missing."""

    peer: str
    version: str | None
    """Of the package in its environment; None if it isn't installed."""
    store: str
    question: str
    trials: int
    filled_s: float | None = None
    started_s: float | None = None
    """Until its server answered a request."""
    first_s: float | None = None
    again_s: list[float] = []
    size: int | None = None
    """Bytes of the answer as sent."""
    memory: int | None = None
    """Peak memory of the server's processes in bytes."""
    missing: str = ""

    @property
    def median_s(self) -> float | None:
        """The median time of the requests after the first."""
        return statistics.median(self.again_s) if self.again_s else None


class Environment(NamedTuple):
    """A folder made by `python -m venv`, and the version of the peer installed there."""

    folder: Path
    version: str | None

    @classmethod
    def of(cls, peer: Peer, folder: Path | None) -> Environment:
        if folder is None or not (folder / "bin/python").exists():
            return cls(folder or Path(), None)
        ask = f"from importlib.metadata import version; print(version({peer.package!r}))"
        told = subprocess.run([folder / "bin/python", "-I", "-c", ask], capture_output=True, text=True, check=False)
        return cls(folder, told.stdout.strip() or None)


class Store(NamedTuple):
    """Where a peer keeps its trials: a name for the table, and a function that creates one in a folder and returns its URL or path."""

    name: str
    create: Callable[[Path], str]


JOURNAL = Store("journal file", lambda folder: str(folder / "journal.log"))
SQLITE = Store("sqlite", lambda folder: f"sqlite:///{folder / 'peer.db'}")


class Setting(NamedTuple):
    """A peer, its environment and store, and the limit in seconds for filling and for each question."""

    peer: Peer
    environment: Environment
    store: Store
    limit_s: float


def ask(setting: Setting, question: Question, trials: int, trials_file: Path, folder: Path) -> Asked:
    """Asks a freshly started server, in an empty folder."""
    asked = Asked(setting.peer.package, setting.environment.version, setting.store.name, question.name, trials)
    if asked.version is None:
        asked.missing = "not installed"
        return asked
    try:
        key, store = _filled(setting, question, trials_file, folder, asked)
        with _served(setting, store, folder, asked) as server:
            for seconds in _answers(server, setting, question, key, asked):
                if asked.first_s is None:
                    asked.first_s = seconds
                else:
                    asked.again_s.append(seconds)
    except NoAnswer as error:
        asked.missing = str(error)
    return asked


def _answers(server: Server, setting: Setting, question: Question, key: str, asked: Asked) -> Iterator[float]:
    """Yields the seconds of each answer; the limit is for all of them together."""
    until = time.monotonic() + setting.limit_s
    for _ in range(1 + AGAIN):
        seconds, size = server.ask(question.request(key), until)
        asked.size = max(asked.size or 0, size)
        yield seconds
        if time.monotonic() + seconds > until:  # Another one would exceed the limit.
            return


def _filled(setting: Setting, question: Question, trials_file: Path, folder: Path, asked: Asked) -> tuple[str, str]:
    """Fills a store; returns the id that the filler printed, and the store."""
    store = setting.store.create(folder)
    python = setting.environment.folder / "bin/python"
    ours = os.getpid()
    began = time.monotonic()
    try:
        done = subprocess.run(
            [python, "-I", setting.peer.filler, question.way, store, trials_file],
            env=_env(folder),
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=setting.limit_s,
            preexec_fn=lambda: die_with(ours),
        )
    except subprocess.TimeoutExpired as late:
        raise NoAnswer(f"filling it took more than {setting.limit_s:,.0f} s") from late
    asked.filled_s = time.monotonic() - began
    if done.returncode:
        raise NoAnswer(f"filling it failed: {done.stderr[-500:]}")
    return done.stdout.split()[-1], store


@contextmanager
def _served(setting: Setting, store: str, folder: Path, asked: Asked) -> Iterator[Server]:
    port = free_port()
    began = time.monotonic()
    command = setting.peer.serve(setting.environment.folder, store, port)
    with serving(command, _env(folder), port, folder) as server:
        server.wait(setting.peer.ready, began + setting.limit_s)
        asked.started_s = time.monotonic() - began
        try:
            yield server
        finally:
            asked.memory = server.memory or None


def _env(folder: Path) -> dict[str, str]:
    """A minimal environment, with a temporary home folder."""
    kept = {name: value for name in ("PATH", "LANG", "LC_ALL", "TMPDIR") if (value := os.environ.get(name))}
    return {**kept, **QUIET, "HOME": str(folder)}
