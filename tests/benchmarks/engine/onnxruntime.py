"""The table that compares tuned runs with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from tests.benchmarks.engine.onnxruntime_process import Compare, Compared
from tuning.engines.wire.errors import Refused
from tuning.host import sandbox
from tuning.models import Run
from tuning.wording import target_label

from .sides import GENEROUS, HOUR, Broken

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


def outcome(run: Run) -> Compared:
    """Measure the run's network with its best records applied. Raises `Broken`."""
    spec = run.tuned_network.spec()
    if spec.file is not None:
        raise Broken(f"Run {run.pk} tunes an uploaded model: only built-in networks are compared with ONNX Runtime.")
    if run.tasks_measured < run.tasks_total or not run.tasks_total:
        raise Broken(f"Run {run.pk} has measured {run.tasks_measured} of its {run.tasks_total} tasks.")
    best = (task.records.first() for task in run.tasks.counting())
    question = Compare(
        network=spec,
        target=run.target,
        records=[record.text for record in best if record is not None],
        in_parts=run.rewrites.in_parts,
        **GENEROUS,
    )
    try:
        return sandbox.ask_once("tests.benchmarks.engine.onnxruntime_process", question, Compared, limits=HOUR)
    except Refused as error:
        raise Broken(f"Run {run.pk} couldn't be compared with ONNX Runtime: {error}") from error


def markdown(measured: Iterable[tuple[Run, Compared]]) -> str:
    """The table of docs/benchmarks.md: the median of the rounds, with the minimum and the maximum in parentheses."""
    lines = [_line(COLUMNS), "|" + " --- |" * len(COLUMNS)]
    return "\n".join([*lines, *(_line(_cells(run, each)) for run, each in measured)])


def _cells(run: Run, found: Compared) -> list[str]:
    estimate = "not recorded" if run.estimated_latency_s is None else f"{run.estimated_latency_s * 1e3:.4g}"
    network = " ".join([run.tuned_network.name, *(f"{name}={value}" for name, value in run.network_options.items())])
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
