"""An engine's process, beyond what tests of its supervisor show."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.engine_fixtures import Play
from tests.threads import until
from tests.tuning.engines.running import start
from tuning.work.engine_process import EngineProcess


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems' pipes hold what they hold")
def test_an_engine_can_send_many_candidates_before_anyone_reads(play: Play, tmp_path: Path) -> None:
    console = tmp_path / "console"
    play({"do": "raw", "text": "x" * 500_000}, {"do": "print", "text": "It goes on."})
    with EngineProcess("meta_schedule", start(tmp_path / "work"), console):
        until(lambda: "It goes on." in console.read_text())
