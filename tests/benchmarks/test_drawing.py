"""`bench_web --parts browser`: how long a browser takes to paint runs and new trials."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from tests.benchmarks.management.commands import bench_web
from tests.benchmarks.web.drawing import Frame, delays
from tests.benchmarks.web.questions import UNKNOWN, Answers
from tests.benchmarks.web.report import Findings, rows
from tests.benchmarks.web.site import Site


def test_a_trial_is_painted_with_the_first_frame_that_has_it() -> None:
    frames = [Frame(2, 10.2), Frame(5, 10.5)]
    found = delays(frames, [(1, 10.0), (2, 10.1), (3, 10.1), (5, 10.45)])
    assert found == pytest.approx([200.0, 100.0, 400.0, 50.0])


def test_the_table_shows_each_visit() -> None:
    visits = [Answers("cold", [1200.0], 1_500_000), Answers("warm", [400.0], 90_000), Answers("third", [300.0], 90_000)]
    found = Findings("sqlite", loads={1000: visits})
    found.drawn = Answers("measured to drawn", [100.0, 200.0], 0)
    told = {row[0]: row[1:] for row in rows([found])}
    assert told["Run page until the first chart is painted, cold: p50, p95 (ms)"] == [
        "≤ 1,500",
        "1,000: 1,200.0, 1,200.0",
    ]
    assert told["… warm: p50, p95 (ms)"] == ["≤ 700", "1,000: 400.0, 400.0"]
    assert told["… a third time, with compiled scripts: p50, p95 (ms)"] == ["", "1,000: 300.0, 300.0"]
    assert told["… over the wire, cold, warm and a third time (kB)"] == ["", "1,000: 1,500, 90, 90"]
    assert told["Measured to painted, 100 trials a second: p50, p95, p99 (ms)"] == ["p99 ≤ 250", "100.0, 200.0, 200.0"]


@pytest.mark.rare
@pytest.mark.browser
def test_a_browser_draws_a_run_and_watches_another(monkeypatch: pytest.MonkeyPatch, chromium_path: str) -> None:
    monkeypatch.setattr(bench_web, "SETTLE_S", 0.0)
    monkeypatch.setattr(bench_web, "DRAWN_TRIALS", 100)
    (found,) = measured("--trials", "300", "--visits", "2")
    (cold, warm, third), drawn = found["loads"]["300"], found["drawn"]
    assert [cold["name"], warm["name"], third["name"]] == ["cold", "warm", "third"]
    assert cold["requests"] == warm["requests"] == third["requests"] == 2
    assert cold["p50_ms"] > 0
    assert cold["bytes"] > 10 * warm["bytes"] > 0, "scripts stay in the cache"
    assert drawn["requests"] == 100
    assert drawn["p99_ms"] >= drawn["p50_ms"] > 0


def test_without_a_browser_it_says_so_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    found = Findings("sqlite")
    bench_web.Command()._draw(Site(Path("nowhere"), None), found, {10: 1}, 1)
    assert "sqlite: the browser is left out, since there is no `chromium` on PATH" in capsys.readouterr().err
    assert {row[2] for row in rows([found])[1:]} == {UNKNOWN}


def measured(*options: str) -> Any:
    out = io.StringIO()
    sizes = ("--databases", "sqlite", "--tasks", "3", "--json")
    call_command("bench_web", *sizes, "--parts", "browser", *options, stdout=out)
    return json.loads(out.getvalue())
