"""The roofline chart of a run: its tasks below what its machine does at best. `meta.role` and `meta.task` select colors."""

from __future__ import annotations

import math
from typing import Any

from dashboard.presentation import units
from dashboard.presentation.charts import SERIES, FigureDict, layout_of
from tuning.models import MachineRoofline
from tuning.reads.gaining import Gain, Roof, Verdict
from tuning.roofline import Roofline

APART = 1.5
"""Working sets whose bandwidths are as near as this have one line."""
BEYOND = 3.0
"""How far lines go on beyond the tasks, as a factor."""
SMALLEST, LARGEST = 7.0, 28.0
"""Diameters of a task in pixels: its area grows with its share of the estimate."""
NUMBERED = 0.03
"""Tasks with at least this share of the estimate have their number beside them; more would lie on top of each other."""


def figure(verdict: Verdict) -> FigureDict | None:
    """Floating-point operations per second over operations per byte, both logarithmic; None without a task that can be drawn."""
    row = verdict.roofline
    drawn = [(gain, gain.roof) for gain in verdict.gains if gain.roof and gain.task.flop and gain.task.best_latency_s]
    if row is None or not drawn:
        return None
    lines = Roofline(row.flops, row.bandwidths)
    shown = _shown(lines)
    ridges = [lines.flops / lines.bandwidth(size) for size in shown]
    intensities = [roof.bound.intensity for _, roof in drawn]
    least, most = min(*intensities, *ridges) / BEYOND, max(*intensities, *ridges) * BEYOND
    data = [_memory(lines, size, least) for size in shown]
    data.append(_compute(row, min(ridges), most))
    data += [_task(gain, roof) for gain, roof in drawn]
    layout = layout_of("Roofline", "FLOP per second", log=True, kind="")
    layout["yaxis"] |= {"tickformat": "~s", "dtick": "D2"}
    layout["xaxis"] = {"title": {"text": "FLOP per byte"}, "type": "log", "tickformat": "~g"}
    layout["meta"]["told"] = _told(drawn)
    return {"data": data, "layout": {**layout, "showlegend": False}}


def _told(drawn: list[tuple[Gain, Roof]]) -> str:
    """The chart in words: the tasks with the largest shares."""
    largest = sorted(drawn, key=lambda one: -(one[0].task.weighted_latency_s or 0.0))[:SERIES]
    tasks = (f"task {g.task.index} {units.percent(roof.reached)}, bound by {roof.bound.by}" for g, roof in largest)
    return f"Shares of the roof: {'; '.join(tasks)}."


def _shown(lines: Roofline) -> list[int]:
    """Of the working sets, the smallest, the largest, and between them those whose bandwidths differ from these."""
    sizes = [size for size, _ in lines.bandwidths]
    shown = sizes[:1]
    for size in sizes[1:]:
        if lines.bandwidth(shown[-1]) > APART * lines.bandwidth(size):
            shown.append(size)
    return [*shown[:-1], sizes[-1]] if len(shown) > 1 else shown


def _memory(lines: Roofline, size: int, least: float) -> dict[str, Any]:
    rate = lines.bandwidth(size)
    words = f"{units.bytes_label(size)} at {rate / 1e9:.3g} GB/s"
    line = _line(words, [least, lines.flops / rate], [least * rate, lines.flops], "trials")
    return {**line, "text": [words, ""], "textposition": "bottom right"}


def _compute(row: MachineRoofline, least: float, most: float) -> dict[str, Any]:
    words = f"{row.flops / 1e9:.4g} GFLOPS on {row.threads} thread{'' if row.threads == 1 else 's'}"
    line = _line(words, [least, most], [row.flops, row.flops], "estimate")
    return {**line, "text": ["", words], "textposition": "top left"}


def _line(words: str, x: list[float], y: list[float], role: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+text",
        "name": words,
        "x": x,
        "customdata": x,
        "y": y,
        "meta": {"role": role},
        "line": {},
        "hovertemplate": f"{words}<extra></extra>",
    }


def _task(gain: Gain, roof: Roof) -> dict[str, Any]:
    task, estimate_s = gain.task, gain.estimate_s
    assert task.flop
    assert task.best_latency_s
    share = (task.weighted_latency_s or 0.0) / estimate_s if estimate_s and task.chosen else 0.0
    reached = units.percent(roof.reached)
    return {
        "type": "scatter",
        "mode": "markers+text",
        "text": [str(task.index) if share >= NUMBERED else ""],
        "textposition": "middle right",
        "name": f"{task.index} {task.name}",
        "x": [roof.bound.intensity],
        "customdata": [roof.bound.intensity],
        "y": [task.flop / task.best_latency_s],
        "meta": {"task": task.index},
        "marker": {"size": SMALLEST + (LARGEST - SMALLEST) * math.sqrt(min(1.0, share)), "opacity": 0.8},
        "hovertemplate": f"task {task.index}: {task.name}<br>%{{y:.4s}}FLOPS, {reached} of its roof, bound by {roof.bound.by}"
        f"<br>{units.bytes_label(roof.size)}, %{{x:.3g}} FLOP a byte<br>{units.percent(share)} of the estimate<extra></extra>",
    }
