from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.tuning.engines.forking.starting import CHANGES, MARKER
from tests.tuning.engines.running import COLD, ROOT, Engine, start
from tuning.engines.forking import fork_server
from tuning.engines.forking.fork_server import COPIES
from tuning.engines.targets.resolving import kind_of
from tuning.engines.wire.protocol import Finished
from tuning.engines.wire.target_fields import TargetRefused

LOGGED = "multiprocessing isn't as expected"


def started(change: str, kills: int = 0) -> tuple[list[dict[str, Any]], str]:
    """What processes from the fork server report, at first and each time after it was killed, and the log."""
    command = [sys.executable, "-m", "tests.tuning.engines.forking.starting", change, MARKER, str(kills)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    return json.loads(ended.stdout), ended.stderr


def test_a_process_with_threads_is_not_forked() -> None:
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    try:
        with pytest.raises(RuntimeError, match="threads"):
            fork_server.start_fork_server([])
    finally:
        over.set()
        thread.join()


def test_it_is_forked_from_the_process_that_starts_it() -> None:
    (report,), log = started("unchanged")
    assert report["forked"]
    assert report["loaded"]
    assert LOGGED not in log


def test_a_server_that_is_killed_is_replaced_at_once_by_a_copy_and_later_by_a_new_one() -> None:
    (_, *replaced), log = started("unchanged", kills=COPIES)
    assert [report["forked"] for report in replaced] == [True] * (COPIES - 1) + [False]
    assert all(report["loaded"] for report in replaced)
    assert all(report["outlives_its_thread"] for report in replaced)
    assert log.count("was killed, and is replaced") == COPIES


@pytest.mark.parametrize("change", [change for change in CHANGES if change != "unchanged"])
def test_it_isnt_forked_if_multiprocessing_differs(change: str) -> None:
    (report,), log = started(change)
    assert not report["forked"]
    assert report["loaded"], "the server loads what its processes need"
    assert log.count(LOGGED) == 1


@pytest.mark.rare
@pytest.mark.tvm
def test_an_engine_tunes_even_if_multiprocessing_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "from tests.tuning.engines.forking.starting import CHANGES\nCHANGES['another-signature']()\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    with Engine(start(tmp_path / "work"), tmp_path / "console", COLD) as engine:
        assert engine.to_the_end() == Finished("budget")
    assert [trial.error for trial in engine.trials] == [None] * 8
    assert engine.console.read_text().count(LOGGED) == 1


@pytest.mark.tvm
def test_an_engines_server_is_forked_with_this_python(tmp_path: Path) -> None:
    with Engine(start(tmp_path / "work", trials_budget=1), tmp_path / "console", COLD) as engine:
        assert engine.to_the_end() == Finished("budget")
    assert LOGGED not in engine.console.read_text()


@pytest.mark.tvm
@pytest.mark.filterwarnings("default")  # TVM's.
@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("this", "llvm"),
        ("nvidia/nvidia-a100", "cuda"),
        ({"kind": "cuda"}, "cuda"),  # TVM would ask the GPU what it is.
        ('{"kind": "llvm", "mcpu": "znver4"}', "llvm"),
    ],
)
def test_a_targets_kind_is_known_without_touching_a_device(target: Any, kind: str) -> None:
    assert kind_of(target) == kind


@pytest.mark.tvm
@pytest.mark.filterwarnings("default")
def test_an_invalid_target_is_refused_before_anything_is_forked() -> None:
    with pytest.raises(TargetRefused):
        kind_of("nvidia/no-such-card")
