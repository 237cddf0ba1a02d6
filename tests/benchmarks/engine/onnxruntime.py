"""Tuned runs beside ONNX Runtime, as a table."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Sequence
from statistics import median

import msgspec
from django.conf import settings

from tests.benchmarks.engine.onnxruntime_process import Beside, Outcome
from tuning.models import Run
from tuning.wording import target_label

from .sides import Broken

COLUMNS = (
    "Network",
    "Target",
    "Trials",
    "Estimate (ms)",
    "Tuned (ms)",
    "ONNX Runtime (ms)",
    "Ratio",
    "Largest difference",
)


def outcome(run: Run) -> Outcome:
    """Measure the run's network, its best records applied. Raises `Broken` when that can't be done."""
    spec = run.network.spec()
    if spec.file is not None:
        raise Broken(f"Run {run.pk} tunes a model of one's own: only built-in networks are set beside ONNX Runtime.")
    if run.tasks_measured < run.tasks_total or not run.tasks_total:
        raise Broken(f"Run {run.pk} has measured {run.tasks_measured} of its {run.tasks_total} tasks.")
    best = (task.records.first() for task in run.tasks.all())
    asked = Beside(spec, run.target, [record.text for record in best if record is not None])
    command = [sys.executable, "-m", "tests.benchmarks.engine.onnxruntime_process"]
    ended = subprocess.run(
        command, input=msgspec.json.encode(asked), capture_output=True, cwd=settings.BASE_DIR, check=False
    )
    if ended.returncode:
        raise Broken(f"Run {run.pk} couldn't be set beside ONNX Runtime:\n{ended.stderr.decode()[-2000:]}")
    return msgspec.json.decode(ended.stdout.splitlines()[-1], type=Outcome)


def markdown(measured: Iterable[tuple[Run, Outcome]]) -> str:
    """The table as docs/benchmarks.md has it: medians of the rounds, with the least and the most beside them."""
    lines = [_line(COLUMNS), "|" + " --- |" * len(COLUMNS)]
    return "\n".join([*lines, *(_line(_cells(run, each)) for run, each in measured)])


def _cells(run: Run, found: Outcome) -> list[str]:
    estimate = "not recorded" if run.estimated_latency_s is None else f"{run.estimated_latency_s * 1e3:.4g}"
    network = " ".join([run.network.name, *(f"{name}={value}" for name, value in run.network.options.items())])
    target = target_label(run.target)
    difference = f"{found.max_abs_error:.1e} of {found.largest:.3g}"
    times = [_spread(found.tuned_s), _spread(found.onnxruntime_s), f"{found.ratio:.2f}"]
    if found.scheduled < found.functions:
        times[0] += f", {found.scheduled} of {found.functions} functions scheduled"
    return [network, target, str(run.trials_done), estimate, *times, difference]


def _spread(seconds: Sequence[float]) -> str:
    least, middle, most = (f"{value * 1e3:.4g}" for value in (min(seconds), median(seconds), max(seconds)))
    return f"{middle} ({least} to {most})"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
