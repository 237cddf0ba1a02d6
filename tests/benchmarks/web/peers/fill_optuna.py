"""`PYTHON fill_optuna.py study STORE TRIALS`: stores synthetic trials in an Optuna study. Prints its id.

Needs a Python with Optuna. STORE is a database URL or the path of a journal file, TRIALS a file of lines
`task,latency_s,at_s`; failed trials have no latency.
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


@event.listens_for(Engine, "connect")
def without_sync(connection: Any, _record: object) -> None:
    """Durability isn't needed while filling."""
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")


class Journal(BaseJournalBackend):  # type: ignore[misc]  # known only where optuna is installed
    """Writes the same file as `JournalFileBackend`, but without a lock and fsync for each trial."""

    def __init__(self, file: TextIO) -> None:
        self.file = file
        self.read = 0
        self.unread: list[dict[str, Any]] = []

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Writes the logs and keeps them for `read_logs`."""
        for log in logs:
            line = json.dumps(log, separators=(",", ":"))
            self.file.write(line + "\n")
            self.unread.append(json.loads(line))

    def read_logs(self, log_number_from: int) -> list[dict[str, Any]]:
        """Returns the logs that the storage hasn't read yet."""
        if log_number_from != self.read:
            raise ValueError(f"expected a read from log {self.read}, not {log_number_from}")
        logs, self.unread = self.unread, []
        self.read += len(logs)
        return logs


def trials(path: Path) -> Iterator[Any]:
    """The file's trials as trials of Optuna."""
    with path.open(newline="") as file:
        for task, latency_s, _ in csv.reader(file):
            ended = {"value": float(latency_s)} if latency_s else {"state": TrialState.FAIL}
            yield create_trial(params={"task": int(task)}, distributions={"task": TASK}, **ended)


def fill(storage: Any, path: Path) -> int:
    """Creates the study; returns its id."""
    study = optuna.create_study(storage=storage, study_name=NAME, direction="minimize")
    study.add_trials(trials(path))
    (summary,) = storage.get_all_studies()
    return int(summary._study_id)


def main(_way: str, store: str, path: Path) -> None:
    """Fills the journal file or the database."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if "://" in store:
        key = fill(RDBStorage(store), path)
    else:
        with Path(store).open("w") as file:
            key = fill(JournalStorage(Journal(file)), path)
    sys.stdout.write(f"{key}\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
