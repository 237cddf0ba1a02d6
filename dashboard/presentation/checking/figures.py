"""The chart of a regression check: what it measured over time, against what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dashboard.presentation import units
from dashboard.presentation.charts import FAILED_HEIGHT, FigureDict, layout_of
from tuning.models import CheckResult

Verdict = CheckResult.Verdict
BAND = "rgba(128, 138, 150, 0.18)"
"""Visible in both themes."""


def history(results: Sequence[CheckResult]) -> FigureDict:
    """Medians with the range of their rounds, the base with its noise, regressions marked; `results` oldest first, those that ended."""
    measured = [one for one in results if one.latency_s is not None]
    slow = [one for one in measured if one.verdict == Verdict.REGRESSION]
    failed = [one for one in results if one.verdict == Verdict.FAILED]
    layout = layout_of("Measured latency", "Latency", log=False, kind="s")
    layout["yaxis"]["rangemode"] = "normal"
    edge = {"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True}
    return {
        "data": [
            *_base([one for one in measured if one.base_s is not None and one.noise is not None]),
            _points("measured", [one for one in measured if one not in slow], {"task": 0, "dash": "solid"}, "circle"),
            _points("regression", slow, {"role": "failed"}, "diamond"),
            _crosses(failed),
        ],
        "layout": {
            **layout,
            "xaxis": {"title": {"text": "Time"}, "type": "date"},
            "yaxis2": edge,
            "showlegend": True,
        },
    }


def _trace(name: str, results: Sequence[CheckResult], y: Sequence[float], meta: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "name": name,
        "x": [(one.ended_at or one.begun_at).isoformat() for one in results],
        "y": list(y),
        "customdata": [one.pk for one in results],
        "meta": meta,
    }


def _base(results: Sequence[CheckResult]) -> list[dict[str, Any]]:
    """The base's line, and the band of what is as fast within noise."""
    bases = [(one.base_s or 0.0, one.noise or 0.0) for one in results]
    low, high = ([base * (1 + sign * noise) for base, noise in bases] for sign in (-1, 1))
    # Around the band: Plotly fills the room between two traces only if both have lines.
    around = _trace("within noise", [*results, *reversed(results)], [*high, *reversed(low)], {"role": "other"})
    filled: dict[str, Any] = {
        "mode": "none",
        "fill": "toself",
        "fillcolor": BAND,
        "hoverinfo": "skip",
        "hovertemplate": "",
    }
    line = {"mode": "lines", "line": {}, "hovertemplate": "base %{y:.4s}s<br>%{x|%Y-%m-%d %H:%M} UTC<extra></extra>"}
    return [
        {**around, **filled},
        {**_trace("base", results, [base for base, _ in bases], {"role": "trials", "dash": "dash"}), **line},
    ]


def _points(name: str, results: Sequence[CheckResult], meta: dict[str, Any], symbol: str) -> dict[str, Any]:
    medians = [one.latency_s or 0.0 for one in results]
    return {
        **_trace(name, results, medians, meta),
        "mode": "markers",
        "marker": {"size": 9, "symbol": symbol},
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [max(one.rounds) - middle for one, middle in zip(results, medians, strict=True)],
            "arrayminus": [middle - min(one.rounds) for one, middle in zip(results, medians, strict=True)],
            "thickness": 1,
        },
        "text": [_told(one) for one in results],
        "hovertemplate": f"{name} %{{y:.4s}}s%{{text}}<br>%{{x|%Y-%m-%d %H:%M}} UTC<extra></extra>",
    }


def _crosses(results: Sequence[CheckResult]) -> dict[str, Any]:
    """Failed ones at the bottom edge, however the latencies are zoomed."""
    return {
        **_trace("failed", results, [FAILED_HEIGHT] * len(results), {"role": "failed"}),
        "mode": "markers",
        "yaxis": "y2",
        "marker": {"size": 8, "symbol": "x-thin"},
        "hovertemplate": "failed<br>%{x|%Y-%m-%d %H:%M} UTC<extra></extra>",
    }


def _told(result: CheckResult) -> str:
    """What the hover of a point says besides."""
    return "" if result.change is None else f"<br>{units.difference(1 + result.change)} against the base"
