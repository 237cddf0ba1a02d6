"""The tables of bench_engine."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import geometric_mean, median

from .timeline import Comparison

GOALS = {
    "trials_a_second": ("Trials a second", "≥ 1.8 at 64, ≥ 3 at 16 (matmul)"),
    "first_trial": ("Time to first trial", "≤ 0.33"),
    "latency_at_equal_trials": ("Latency at equal trials", "≤ 1.05"),
    "latency_at_equal_time": ("Latency at equal time", ""),
    "time_to_quality": ("Time to quality", "≤ 0.5"),
    "streaming": ("Streaming's share", "≤ 0.01"),
}
"""The title and goal of each figure."""
LACKING = {
    "latency_at_equal_time": "stock had no estimate yet in {lacking} of {total}",
    "time_to_quality": "not reached in {lacking} of {total}",
}
"""Why a figure is missing."""


def rows(comparisons: Sequence[Comparison], cores: int) -> list[list[str]]:
    """The header, then a row for each workload and batch size: medians and ranges over the repeats."""
    header = ["Workload", "Batch", "Repeats", *(title for title, _ in GOALS.values())]
    groups: dict[tuple[str, int], list[dict[str, float | None]]] = {}
    for one in comparisons:
        groups.setdefault((one.workload, one.batch), []).append(one.figures(cores))
    return [
        header,
        *(
            [
                name,
                str(batch),
                str(len(found)),
                *(_spread(figure, [each[figure] for each in found]) for figure in GOALS),
            ]
            for (name, batch), found in groups.items()
        ),
        ["Goal", "", "", *(goal for _, goal in GOALS.values())],
    ]


def time_to_quality(comparisons: Iterable[Comparison], cores: int) -> float | None:
    """The geometric mean over all comparisons; None if one of them never reached the quality."""
    found = [one.figures(cores)["time_to_quality"] for one in comparisons]
    return geometric_mean([each for each in found if each is not None]) if found and None not in found else None


def markdown(comparisons: Sequence[Comparison], cores: int) -> str:
    """The tables as Markdown."""
    table = rows(comparisons, cores)
    lines = ["| " + " | ".join(row) + " |" for row in table]
    lines.insert(1, "|" + " --- |" * len(table[0]))
    mean = time_to_quality(comparisons, cores)
    shown = "not reached in every comparison" if mean is None else f"{mean:.2f}"
    return "\n".join([*lines, "", f"Time to quality, geometric mean: {shown}.", "", *_absolute(comparisons)])


def _absolute(comparisons: Iterable[Comparison]) -> list[str]:
    """The absolute figures, one line for each comparison."""
    lines = [
        "| Workload | Batch | Seed | Trials | Ours (s) | Stock (s) | Ours, first trial (s) | Stock, first trial (s) | Ours (ms) | Stock (ms) |"
    ]
    lines.append("|" + " --- |" * 10)
    for one in comparisons:
        latencies = ("—" if each is None else f"{each * 1e3:.4g}" for each in (one.ours_s, one.stock_s))
        seconds = f"{one.ours.wall_s:.0f} | {one.stock.wall_s:.0f} | {one.ours.first_s:.1f} | {one.stock.first_s:.1f}"
        lines.append(
            f"| {one.workload} | {one.batch} | {one.seed} | {len(one.ours.trials)} | {seconds} | {' | '.join(latencies)} |"
        )
    return lines


def _spread(figure: str, values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    if lacking := len(values) - len(known):
        why = LACKING.get(figure, "a task had no valid trial in {lacking} of {total}")
        return why.format(lacking=lacking, total=len(values))
    digits = max(2, 2 - math.floor(math.log10(max(known)))) if max(known) < 1 else 2
    least, middle, most = (f"{value:.{digits}f}" for value in (min(known), median(known), max(known)))
    return middle if len(known) == 1 else f"{middle} ({least} to {most})"
