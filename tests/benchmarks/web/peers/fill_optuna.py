"""`PYTHON fill_optuna.py study STORE TRIALS`: a study of made-up trials, by a Python that has optuna. Prints the study's id.

STORE is a database's URL or the path of a journal file, TRIALS a file of lines `task,latency_s,at_s`, the latency of a failed one empty.
"""

from __future__ import annotations

import csv
import json
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import optuna
from optuna.distributions import IntDistribution
from optuna.storages import RDBStorage
from optuna.storages.journal import BaseJournalBackend, JournalStorage
from optuna.trial import TrialState, create_trial
from sqlalchemy import Engine, event

NAME = "synthetic"
TASK = IntDistribution(0, 10_000)


@event.listens_for(Engine, "connect")  # type: ignore[untyped-decorator]  # known only where the peer is installed
def careless(connection: Any, _record: object) -> None:
    """Who fills needn't wait for the disk: it can be filled again."""
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")


class Journal(BaseJournalBackend):  # type: ignore[misc]  # known only where optuna is installed
    """The file as `JournalFileBackend` writes it, without lock and fsync for each trial: nobody else writes, and it can be made again."""

    def __init__(self, file: TextIO) -> None:
        self.file = file
        self.read = 0
        self.unread: list[dict[str, Any]] = []

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Writes them, and keeps them for who reads next."""
        for log in logs:
            line = json.dumps(log, separators=(",", ":"))
            self.file.write(line + "\n")
            self.unread.append(json.loads(line))

    def read_logs(self, log_number_from: int) -> list[dict[str, Any]]:
        """Those that the one storage there is hasn't read yet."""
        if log_number_from != self.read:
            raise ValueError(f"log {log_number_from} is asked for, {self.read} comes next")
        logs, self.unread = self.unread, []
        self.read += len(logs)
        return logs


def trials(path: Path) -> Iterator[Any]:
    """As optuna has them."""
    with path.open(newline="") as file:
        for task, latency_s, _ in csv.reader(file):
            ended = {"value": float(latency_s)} if latency_s else {"state": TrialState.FAIL}
            yield create_trial(params={"task": int(task)}, distributions={"task": TASK}, **ended)


def fill(storage: Any, path: Path) -> int:
    """Gives the study's id."""
    study = optuna.create_study(storage=storage, study_name=NAME, direction="minimize")
    study.add_trials(trials(path))
    (summary,) = storage.get_all_studies()
    return int(summary._study_id)


def main(_way: str, store: str, path: Path) -> None:
    """Into the journal file or the database."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if "://" in store:
        key = fill(RDBStorage(store), path)
    else:
        with Path(store).open("w") as file:
            key = fill(JournalStorage(Journal(file)), path)
    sys.stdout.write(f"{key}\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
