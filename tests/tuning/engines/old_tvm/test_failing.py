from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tuning.engines.old_tvm.trials import Outcome, text_of
from tuning.engines.wire.protocol import Failed, Finished

from .legacy_running import EVERYDAY, Legacy

pytestmark = pytest.mark.tvm


def test_a_failed_build_is_a_trial_with_its_reason(legacy: Legacy) -> None:
    """Without `tar`, TVM can't pack what it built."""
    with legacy.run(legacy.start(trials_budget=2), PATH="/nowhere") as engine:
        assert engine.to_the_end() == Finished("budget")
    assert [trial.error_kind for trial in engine.trials] == ["build"] * 2
    assert all("No such file or directory: 'tar'" in str(trial.error) for trial in engine.trials)
    assert [trial.latency_s for trial in engine.trials] == legacy.latencies() == [None, None]


@EVERYDAY
def test_a_failed_measurement_is_a_trial_with_its_reason(legacy: Legacy, tmp_path: Path) -> None:
    """Without a C compiler, TVM can't load what it built."""
    (tmp_path / "bin").mkdir()
    for name in ("tar", "gzip"):
        (tmp_path / "bin" / name).symlink_to(f"/bin/{name}")
    with legacy.run(legacy.start(trials_budget=1), PATH=str(tmp_path / "bin")) as engine:
        assert engine.to_the_end() == Finished("budget")
    (trial,) = engine.trials
    assert trial.error_kind == ("build" if legacy.engine == "auto_scheduler" else "run")
    assert "load_module" in str(trial.error), "the traceback begins there"


@EVERYDAY
def test_a_measurement_that_takes_too_long_is_a_trial(legacy: Legacy) -> None:
    slow = {"min_repeat_ms": 60_000, "run_timeout_s": 1}
    with legacy.run(legacy.start(slow, trials_budget=1)) as engine:
        assert engine.to_the_end() == Finished("budget")
    (trial,) = engine.trials
    assert (trial.error_kind, trial.error) == ("run_timeout", "The measurement took longer than its timeout.")


@pytest.mark.parametrize(
    ("changes", "field", "reason"),
    [
        ({"target": {"kind": "teapot"}}, "target", "This TVM knows no such target"),
        ({"options": {"tasks": [0, 99]}}, "tasks", "mlp has no task 99: its 4 are numbered from 0."),
    ],
)
def test_what_cant_be_tuned_is_refused(
    changes: dict[str, Any], field: str, reason: str, auto_scheduler: Legacy
) -> None:
    with auto_scheduler.run(auto_scheduler.start(**changes)) as engine:
        failed = engine.to_the_end()
        assert engine.process.returncode == 1
    assert isinstance(failed, Failed)
    assert failed.field == field
    assert reason in failed.error


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        (
            "InternalError: Check failed: (name_it != name_to_arg.end()) is false:",
            "Choose the layout rewrite no_rewrite.",
        ),
        ("TypeError: load_module() takes 1 positional argument but 3 were given", "or with another TVM."),
        ("InternalError: Check failed: (false) is false", None),
    ],
)
def test_an_error_of_a_faulty_tvm_says_what_helps(said: str, advice: str | None) -> None:
    text = str(text_of(Outcome(None, 1, said)))
    assert text.startswith(said)
    assert text.endswith(advice or said)
