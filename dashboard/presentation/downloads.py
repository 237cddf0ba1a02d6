"""What there is of a run to download, or of a task. `static/js/run/downloads.js` keeps it true while the page is open."""

from __future__ import annotations

import re
import unicodedata

from typing_extensions import TypedDict

from tuning.models import KEEP_BEST, Run, Task
from tuning.wording import target_name


class Ready(TypedDict):
    """Which files can be made: of valid trials, of any trial really measured, of any trial, of what was printed."""

    best: bool
    all: bool
    trials: bool
    console: bool


class Menu(TypedDict):
    """The menu of downloads: how names of files begin, the API's path and what restricts it to a task."""

    ready: Ready
    file: str
    api: str
    only: str
    also: str
    counts: list[int]
    """Of best records, to choose from."""
    charts: list[tuple[str, str]]
    """Name and title."""


RUN_CHARTS = [("latency", "Best latency"), ("estimate", "Estimated latency"), ("allocation", "Trials of each task")]
TASK_CHARTS = [("task", "Latency of each trial")]


def menu(run: Run, task: Task | None = None) -> Menu:
    """What the run has to offer, or the task alone."""
    valid = run.tasks_measured > 0 if task is None else task.best_latency_s is not None
    trials = run.trials_done > 0 if task is None else task.trials > 0
    real = not run.synthetic
    return {
        "ready": {
            "best": valid and real,
            "all": trials and real,
            "trials": trials,
            "console": run.console_log.exists() and run.console_log.stat().st_size > 0,
        },
        "file": stem(run) if task is None else f"{stem(run)}_task-{task.index}",
        "api": f"/api/v1/runs/{run.pk}",
        "only": "" if task is None else f"?task={task.index}",
        "also": "" if task is None else f"&task={task.index}",
        "counts": list(range(1, KEEP_BEST + 1)),
        "charts": RUN_CHARTS if task is None else TASK_CHARTS,
    }


def stem(run: Run) -> str:
    """What names of a run's files begin with: `resnet-18_znver4_run-12`."""
    return f"{_plain(run.network.name) or 'network'}_{_plain(target_name(run.target)) or 'target'}_run-{run.pk}"


def _plain(text: str) -> str:
    """Letters, digits, dots and hyphens that any file system and shell takes."""
    ascii_only = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9.]+", "-", ascii_only).strip("-.")[:60]
