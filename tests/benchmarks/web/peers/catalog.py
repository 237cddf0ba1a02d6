"""The peers: how to fill and serve them, and what their pages request."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
POINTS = 320
"""Points per curve that MLflow's page requests."""
PAGE = 50
"""Rows per page, as in ours."""


class Request(NamedTuple):
    """A request of the peer's page; with a body it is a POST of JSON."""

    path: str
    body: dict[str, object] | None = None


class Question(NamedTuple):
    """A request to a store filled in this `way`; `request` takes the id that the filler printed."""

    name: str
    way: str
    request: Callable[[str], Request]


class Peer(NamedTuple):
    """`package` names the peer and its distribution; `filler` is a script for the peer's own Python.

    `serve` takes the environment's folder, the store's URL and a port, and returns the command; `ready` is a path that answers once it serves.
    """

    package: str
    filler: Path
    files: bool
    """Whether it also supports a journal file."""
    serve: Callable[[Path, str, int], list[str]]
    ready: str
    questions: tuple[Question, ...]


def _serve_optuna(environment: Path, store: str, port: int) -> list[str]:
    return [str(environment / "bin/optuna-dashboard"), store, "--host", "127.0.0.1", "--port", str(port)]


def _serve_mlflow(environment: Path, store: str, port: int) -> list[str]:
    command = [str(environment / "bin/mlflow"), "server", "--backend-store-uri", store]
    # One process, like ours: its default of four doesn't answer a single request faster.
    return [*command, "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]


def _curve(run: str) -> Request:
    asked = f"run_ids={run}&metric_key=latency_s&max_results={POINTS}"
    return Request(f"/ajax-api/2.0/mlflow/metrics/get-history-bulk-interval?{asked}")


def _sorted_page(experiment: str) -> Request:
    order = ["metrics.latency_s ASC"]
    return Request(
        "/ajax-api/2.0/mlflow/runs/search",
        {"experiment_ids": [experiment], "order_by": order, "max_results": PAGE, "run_view_type": "ACTIVE_ONLY"},
    )


OPTUNA = Peer(
    "optuna-dashboard",
    HERE / "fill_optuna.py",
    files=True,
    serve=_serve_optuna,
    ready="/api/meta",
    questions=(Question("page data of a study", "study", lambda study: Request(f"/api/studies/{study}?after=0")),),
)
"""Its page loads all trials, then makes curves and sorts in the browser: there is nothing else to ask."""
MLFLOW = Peer(
    "mlflow",
    HERE / "fill_mlflow.py",
    files=False,
    serve=_serve_mlflow,
    ready="/health",
    questions=(
        Question(f"curve of a run in {POINTS} points, each trial a step", "steps", _curve),
        Question(f"sorted page of {PAGE}, each trial a run", "runs", _sorted_page),
    ),
)
PEERS = (OPTUNA, MLFLOW)
