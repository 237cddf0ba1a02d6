"""The download menu of a run or task. `static/js/run/downloads.js` updates it while the page is open."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from typing_extensions import TypedDict

from tuning.models import KEEP_BEST, Run, Task
from tuning.reads.console import has_printed
from tuning.wording import target_name


class Ready(TypedDict):
    """Which files are available: of valid trials, of trials that were really measured, of any trials, of console output."""

    best: bool
    all: bool
    trials: bool
    console: bool


class Menu(TypedDict):
    """`file` begins the names of files, `api` is the path, `only` and `also` are query strings for a single task."""

    ready: Ready
    file: str
    api: str
    only: str
    also: str
    counts: list[int]
    """Numbers of best records to choose from."""
    charts: list[tuple[str, str]]
    """Names and titles."""
    native: tuple[str, str]
    """What the engine's own format is called, and what is in the file."""


RUN_CHARTS = [("latency", "Best latency"), ("estimate", "Estimated latency"), ("allocation", "Trials of each task")]
TASK_CHARTS = [("task", "Latency of each trial")]
DATABASE = ("zip", "MetaSchedule’s two database files, as TVM reads them")
LOG = ("log", "The engine’s own log, as TVM reads it")


def menu(run: Run, task: Task | None = None) -> Menu:
    valid = run.tasks_measured > 0 if task is None else task.best_latency_s is not None
    trials = run.trials_done > 0 if task is None else task.trials > 0
    real = not run.synthetic
    return {
        "ready": {
            "best": valid and real,
            "all": trials and real,
            "trials": trials,
            "console": has_printed(run),
        },
        "file": stem(run) if task is None else f"{stem(run)}_task-{task.index}",
        "api": f"/api/v1/runs/{run.pk}",
        "only": "" if task is None else f"?task={task.index}",
        "also": "" if task is None else f"&task={task.index}",
        "counts": list(range(1, KEEP_BEST + 1)),
        "charts": RUN_CHARTS if task is None else TASK_CHARTS,
        "native": DATABASE if run.engine == "meta_schedule" else LOG,
    }


def stem(*runs: Run) -> str:
    """The beginning of the names of files: `resnet-18_znver4_run-12`, or with several runs `…_runs-12-13`."""
    network = _common(run.network_name or "" for run in runs) or "network"
    target = _common(target_name(run.target) for run in runs) or "target"
    numbers = "-".join(str(run.pk) for run in runs)[:60].strip("-")
    return f"{network}_{target}_run{'s' if len(runs) > 1 else ''}-{numbers}"


def _common(names: Iterable[str]) -> str:
    """The name that all have; empty if they differ."""
    different = {_plain(name) for name in names}
    return different.pop() if len(different) == 1 else ""


def _plain(text: str) -> str:
    """Only letters, digits, dots and hyphens, which every file system and shell accepts."""
    ascii_only = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9.]+", "-", ascii_only).strip("-.")[:60]
