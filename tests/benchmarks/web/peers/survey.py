"""Every question to every peer, on one of our databases."""

from __future__ import annotations

import csv
import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tuning.host.postgresql import new_database
from tuning.work.synthetic import random_trials

from .known import PEERS, Peer, Question
from .measuring import JOURNAL, SQLITE, Asked, Environment, Setting, Store, ask


class Plan(NamedTuple):
    """Where the environments are, by the peers' names (without one a peer isn't installed), and how many seconds filling, and each question, may take.

    `url` is of a database on a PostgreSQL server, which gets others beside it; without one the peers keep files.
    """

    folders: Mapping[str, Path]
    url: str | None
    limit_s: float
    peers: Sequence[Peer] = PEERS


def ask_all(plan: Plan, sizes: Sequence[int], tasks: int, say: Callable[[str], None]) -> Iterator[Asked]:
    """With the very trials that `seed_trials` records. `say` is told what begins."""
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
    """Lines as the fillers read them."""
    with path.open("w", newline="") as file:
        for trial in random_trials(size, tasks):
            csv.writer(file).writerow([trial.task, trial.latency_s, f"{trial.at_s:.3f}"])
