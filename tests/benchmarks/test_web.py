"""`manage.py bench_web`: one small real measurement, and the table."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from tests.benchmarks.management.commands import bench_web
from tests.benchmarks.web import report
from tests.benchmarks.web.questions import UNKNOWN, Answers, of_trials
from tests.benchmarks.web.report import Findings, Seeded
from tests.benchmarks.web.watching import Watched


@pytest.mark.rare
def test_it_measures_a_site_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bench_web, "SETTLE_S", 0.0)
    monkeypatch.setattr(bench_web, "WATCHED_DELTAS", 5)
    monkeypatch.setattr(bench_web, "LIVE_TRIALS", 400)
    sizes = ("--trials", "200", "400", "--tasks", "3", "--runs", "7", "--requests", "2", "--sockets", "3")
    out, into = io.StringIO(), tmp_path / "figures.json"
    parts = (
        "--parts",
        "curves",
        "scatter",
        "pages",
        "runs",
        "watchers",
        "recorder",
    )  # test_drawing.py covers the browser
    call_command("bench_web", "--databases", "sqlite", *parts, *sizes, "--json", "--into", str(into), stdout=out)
    (found,) = json.loads(out.getvalue())
    assert json.loads(into.read_text()) == [found]
    assert found["database"] == "sqlite"
    assert [seeded["trials"] for seeded in found["seeded"]] == [200, 400]
    for size in ("200", "400"):
        assert [each["name"] for each in found["curves"][size]] == ["curves", "figures"]
        assert [each["name"] for each in found["scatter"][size]][:2] == ["all", "the middle half"]
        assert len(found["pages"][size]) == len(of_trials(1, [1.0]))
        assert all(0 < each["p50_ms"] <= each["p95_ms"] for each in found["pages"][size])
    assert found["runs"] == 9
    assert found["live_trials_a_second"] > 0
    watched = found["watched"]
    assert (watched["sockets"], watched["trials"], watched["missed"]) == (3, 50, 0)
    assert watched["delays"]["requests"] == 150
    assert found["idle_bytes"] > found["web_bytes"] > 10**7


@pytest.mark.parametrize(
    "option", ["--trials", "--tasks", "--runs", "--requests", "--sockets", "--visits", "--peer-limit"]
)
def test_it_refuses_sizes_that_make_no_sense(option: str) -> None:
    with pytest.raises(CommandError, match="at least 1") as refused:
        call_command("bench_web", option, "0")
    assert refused.value.returncode == 2


def test_percentiles_are_by_the_nearest_rank() -> None:
    answers = Answers("page", [float(number) for number in range(100, 0, -1)], 10)
    assert [answers.at(share) for share in (0.5, 0.95, 0.99)] == [50.0, 95.0, 99.0]
    assert answers.at(0.07) == 7.0, "though 0.07 * 100 is a little more than 7"
    assert [Answers("page", [3.0, 4.0, 5.0], 10).at(share) for share in (0.0, 0.34, 0.99)] == [3.0, 4.0, 5.0]


def test_the_table_shows_the_slowest_kind_beside_the_goal() -> None:
    found = Findings("sqlite", seeded=[Seeded(10, 20_500.0)], runs=5000, idle_bytes=400_000_000)
    found.curves = {10: [Answers("curves", [10.0], 5000)], 1000: [Answers("curves", [12.0], 7000)]}
    found.scatter = {1000: [Answers("all", [1.0], 2000), Answers("a tenth", [3.0], 4000)]}
    found.pages = {1000: [Answers("quick", [1.0], 1), Answers("slow", [20.0], 1)]}
    found.watched = Watched(500, 1000, 0, [5.0])
    told = {row[0]: row[1:] for row in report.rows([found])}
    assert told["… p95 of the largest run divided by that of the smallest"] == ["≤ 1.5", "curves 1.20"]
    assert told["Scatter's largest answer, compressed (kB)"][1] == "1,000: 4.0"
    assert told["Scatter, the slowest window at each size: p50, p95, p99 (ms)"][1] == "1,000: 3.0, 3.0, 3.0 (a tenth)"
    assert told["… compressed (kB)"][1] == "10: 5.0<br>1,000: 7.0"
    assert (
        told["Page of trials, the slowest kind at each size: p50, p95, p99 (ms)"][1] == "1,000: 20.0, 20.0, 20.0 (slow)"
    )
    assert told["Watchers, each with every trial at 10 deltas a second"][1] == "500 sockets, 1,000 trials, 0 missed"
    assert told["All that `up` starts, idle (MB)"] == ["≤ 500", "400"]


def test_the_table_says_what_was_not_measured() -> None:
    assert {row[2] for row in report.rows([Findings("sqlite")])[1:]} == {UNKNOWN}
