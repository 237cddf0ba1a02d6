"""`PYTHON fill_mlflow.py steps|runs STORE TRIALS`: stores synthetic trials in MLflow, as steps of one run or as a run each.

Needs a Python with MLflow. STORE is a database URL, TRIALS a file of lines `task,latency_s,at_s`; failed trials have no
latency. Prints the id of the run or of the experiment.
"""

from __future__ import annotations

import csv
import sqlite3
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Metric
from sqlalchemy import Engine, event

METRIC = "latency_s"
AT_ONCE = 1000
"""The most metrics that `log_batch` accepts."""


@event.listens_for(Engine, "connect")
def without_sync(connection: Any, _record: object) -> None:
    """Durability isn't needed while filling."""
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")


def measured(path: Path) -> Iterator[Metric]:
    """The latency of each trial that has one; its step is the trial's number."""
    with path.open(newline="") as file:
        for number, (_, latency_s, at_s) in enumerate(csv.reader(file), 1):
            if latency_s:
                yield Metric(METRIC, float(latency_s), int(float(at_s) * 1e3), number)


def fill_steps(client: MlflowClient, experiment: str, path: Path) -> str:
    """Stores all trials in one run; returns its id."""
    run: str = client.create_run(experiment).info.run_id
    metrics = measured(path)
    while batch := list(islice(metrics, AT_ONCE)):
        client.log_batch(run, metrics=batch)
    return run


def fill_runs(client: MlflowClient, experiment: str, path: Path) -> str:
    """Stores each trial as a run; returns the experiment's id. Failed trials are runs without the metric."""
    with path.open(newline="") as file:
        for _, latency_s, at_s in csv.reader(file):
            run = client.create_run(experiment).info.run_id
            if latency_s:
                client.log_batch(run, metrics=[Metric(METRIC, float(latency_s), int(float(at_s) * 1e3), 0)])
    return experiment


def main(way: str, store: str, path: Path) -> None:
    """Writes directly into the server's database."""
    client = MlflowClient(tracking_uri=store)
    experiment = client.create_experiment("synthetic", artifact_location=f"file://{path.parent}/artifacts")
    fill = fill_steps if way == "steps" else fill_runs
    sys.stdout.write(f"{fill(client, experiment, path)}\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
