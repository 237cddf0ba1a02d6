"""Asks every peer every question, at every size and on every store."""

from __future__ import annotations

import csv
import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tuning.host.postgresql import new_database
from tuning.work.synthetic import random_trials

from .catalog import PEERS, Peer, Question
from .measuring import JOURNAL, SQLITE, Asked, Environment, Setting, Store, ask


class Plan(NamedTuple):
    """`folders` has the environment of each installed peer, and `limit_s` limits filling and each question.

    `url` names a PostgreSQL server, on which databases are created; without it the peers use files.
    """

    folders: Mapping[str, Path]
    url: str | None
    limit_s: float
    peers: Sequence[Peer] = PEERS


def ask_all(plan: Plan, sizes: Sequence[int], tasks: int, say: Callable[[str], None]) -> Iterator[Asked]:
    """Uses the same trials as `seed_trials`. `say` is called before each question."""
    with tempfile.TemporaryDirectory(prefix="tuneboard-peers-") as scratch:
        for size in sorted(sizes):
            trials = Path(scratch) / f"{size}.csv"
            _write(trials, size, tasks)
            for setting, question in _settings(plan):
                say(f"{setting.peer.package} on {setting.store.name}: {question.name}, {size:,} trials")
                with tempfile.TemporaryDirectory(dir=scratch, ignore_cleanup_errors=True) as folder:
                    yield ask(setting, question, size, trials, Path(folder))
            trials.unlink()


def _settings(plan: Plan) -> Iterator[tuple[Setting, Question]]:
    for peer in plan.peers:
        environment = Environment.of(peer, plan.folders.get(peer.package))
        for store in _stores(peer, plan.url):
            for question in peer.questions:
                yield Setting(peer, environment, store, plan.limit_s), question


def _stores(peer: Peer, url: str | None) -> list[Store]:
    if url is not None:
        return [Store("postgresql", lambda _folder: new_database(url, f"peer_{secrets.token_hex(4)}"))]
    return [JOURNAL, SQLITE] if peer.files else [SQLITE]


def _write(path: Path, size: int, tasks: int) -> None:
    """Writes the lines that fillers read."""
    with path.open("w", newline="") as file:
        for trial in random_trials(size, tasks):
            csv.writer(file).writerow([trial.task, trial.latency_s, f"{trial.at_s:.3f}"])
