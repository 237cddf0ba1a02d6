"""The table of bench_web: measurements and goals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tests.benchmarks.web.peers import table
from tests.benchmarks.web.peers.measuring import Asked

from .questions import UNKNOWN, Answers, slowest
from .watching import Watched


class Seeded(msgspec.Struct):
    """A synthetic run, written by the recorder's bulk path."""

    trials: int
    trials_a_second: float


class Findings(msgspec.Struct):
    """The measurements on one database. What wasn't measured is empty or None."""

    database: str
    seeded: list[Seeded] = []
    live_trials_a_second: float | None = None
    curves: dict[int, list[Answers]] = {}
    """By the run's number of trials."""
    scatter: dict[int, list[Answers]] = {}
    pages: dict[int, list[Answers]] = {}
    runs: int = 0
    run_list: list[Answers] = []
    loads: dict[int, list[Answers]] = {}
    """Loads of the run page in a browser, cold, warm and a third time, by the run's number of trials."""
    watched: Watched | None = None
    drawn: Answers | None = None
    """One time for each trial of the run that a browser watched."""
    peers: list[Asked] = []
    web_bytes: int | None = None
    idle_bytes: int | None = None


def rows(found: Sequence[Findings]) -> list[list[str]]:
    """The header, then for each measurement its goal and the figures of each database."""
    lines = [
        ("Curve data of a run: p50, p95, p99 (ms)", "p95 ≤ 100", _curve_times),
        ("… compressed (kB)", "≤ 100", _curve_sizes),
        ("… p95 of the largest run divided by that of the smallest", "≤ 1.5", _curve_ratio),
        ("Scatter, the slowest window at each size: p50, p95, p99 (ms)", "p95 ≤ 100", _scatter_times),
        ("Scatter's largest answer, compressed (kB)", "", _scatter_sizes),
        ("Page of trials, the slowest kind at each size: p50, p95, p99 (ms)", "p95 ≤ 50", _page_times),
        ("Page of the run list, the slowest kind: p50, p95, p99 (ms)", "p95 ≤ 50", _list_times),
        ("Run page until the first chart is painted, cold: p50, p95 (ms)", "≤ 1,500", lambda one: _load_times(one, 0)),
        ("… warm: p50, p95 (ms)", "≤ 700", lambda one: _load_times(one, 1)),
        ("… a third time, with compiled scripts: p50, p95 (ms)", "", lambda one: _load_times(one, 2)),
        ("… over the wire, cold, warm and a third time (kB)", "", _load_sizes),
        ("Measured to painted, 100 trials a second: p50, p95, p99 (ms)", "p99 ≤ 250", _drawing),
        ("Watchers, each with every trial at 10 deltas a second", "500", _watchers),
        ("… from the recorder to a watcher: p50, p95, p99 (ms)", "", _delays),
        ("Recorder, bulk path (trials a second)", "≥ 20,000", _bulk),
        ("Recorder, live path (trials a second)", "≥ 2,000", _live),
        ("Web process after all this (MB)", "≤ 300", lambda one: _megabytes(one.web_bytes)),
        ("All that `up` starts, idle (MB)", "≤ 500", lambda one: _megabytes(one.idle_bytes)),
    ]
    header = ["", "Goal", *(one.database for one in found)]
    return [header, *([title, goal, *(show(one) for one in found)] for title, goal, show in lines)]


def figures(one: Findings) -> dict[str, Any]:
    """Plain values, with percentiles instead of single times."""
    told: dict[str, Any] = msgspec.to_builtins(one)
    told["curves"] = {size: [_summary(each) for each in answers] for size, answers in one.curves.items()}
    told["scatter"] = {size: [_summary(each) for each in answers] for size, answers in one.scatter.items()}
    told["pages"] = {size: [_summary(each) for each in answers] for size, answers in one.pages.items()}
    told["loads"] = {size: [_summary(each) for each in answers] for size, answers in one.loads.items()}
    told["drawn"] = _summary(one.drawn) if one.drawn else None
    told["run_list"] = [_summary(each) for each in one.run_list]
    if one.watched:
        seen = one.watched
        told["watched"] = {"sockets": seen.sockets, "trials": seen.trials, "missed": seen.missed}
        told["watched"]["delays"] = _summary(Answers("from the recorder to a watcher", seen.ms, 0))
    return told


def _summary(answers: Answers) -> dict[str, Any]:
    times = {f"p{share * 100:.0f}_ms": answers.at(share) for share in (0.5, 0.95, 0.99)} if answers.ms else {}
    return {"name": answers.name, "requests": len(answers.ms), "bytes": answers.size, **times}


def markdown(found: Sequence[Findings]) -> str:
    """The tables of docs/benchmarks.md: the site's unless only peers were asked, and the peers' if any were."""
    asked = any(one.peers for one in found)
    site = [] if asked and all(one.idle_bytes is None for one in found) else [rows(found)]
    return "\n".join(_table(each) for each in (*site, *([table.rows(found)] if asked else [])))


def _table(cells: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in cells]
    return "\n".join([lines[0], "|" + " --- |" * len(cells[0]), *lines[1:]]) + "\n"


def _curve_times(one: Findings) -> str:
    return _by_size({size: _times(slowest(answers)) for size, answers in one.curves.items()})


def _curve_sizes(one: Findings) -> str:
    return _largest(one.curves)


def _largest(asked: dict[int, list[Answers]]) -> str:
    return _by_size({size: f"{max(each.size for each in answers) / 1e3:.1f}" for size, answers in asked.items()})


def _curve_ratio(one: Findings) -> str:
    if len(one.curves) < 2:
        return UNKNOWN
    least, most = one.curves[min(one.curves)], one.curves[max(one.curves)]
    return ", ".join(
        f"{after.name} {after.at(0.95) / before.at(0.95):.2f}" for before, after in zip(least, most, strict=True)
    )


def _scatter_times(one: Findings) -> str:
    return _by_size({size: _named(slowest(answers)) for size, answers in one.scatter.items()})


def _scatter_sizes(one: Findings) -> str:
    return _largest(one.scatter)


def _page_times(one: Findings) -> str:
    return _by_size({size: _named(slowest(answers)) for size, answers in one.pages.items()})


def _list_times(one: Findings) -> str:
    return f"{one.runs:,} runs: {_named(slowest(one.run_list))}" if one.run_list else UNKNOWN


def _load_times(one: Findings, visit: int) -> str:
    return _by_size({size: _times(answers[visit], 0.5, 0.95) for size, answers in one.loads.items()})


def _load_sizes(one: Findings) -> str:
    return _by_size(
        {size: ", ".join(f"{each.size / 1e3:,.0f}" for each in visits) for size, visits in one.loads.items()}
    )


def _drawing(one: Findings) -> str:
    return _times(one.drawn) if one.drawn else UNKNOWN


def _watchers(one: Findings) -> str:
    seen = one.watched
    return UNKNOWN if seen is None else f"{seen.sockets} sockets, {seen.trials:,} trials, {seen.missed:,} missed"


def _delays(one: Findings) -> str:
    return _times(Answers("", one.watched.ms, 0)) if one.watched and one.watched.ms else UNKNOWN


def _bulk(one: Findings) -> str:
    return _by_size({each.trials: f"{each.trials_a_second:,.0f}" for each in one.seeded})


def _live(one: Findings) -> str:
    return UNKNOWN if one.live_trials_a_second is None else f"{one.live_trials_a_second:,.0f}"


def _named(answers: Answers) -> str:
    return f"{_times(answers)} ({answers.name})"


def _times(answers: Answers, *shares: float) -> str:
    return ", ".join(f"{answers.at(share):,.1f}" for share in shares or (0.5, 0.95, 0.99))


def _by_size(shown: dict[int, str]) -> str:
    return "<br>".join(f"{size:,}: {text}" for size, text in sorted(shown.items())) or UNKNOWN


def _megabytes(size: int | None) -> str:
    return UNKNOWN if size is None else f"{size / 1e6:.0f}"
