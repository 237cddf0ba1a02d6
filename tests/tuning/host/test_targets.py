"""Targets as users name them, resolved by the real TVM in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tuning.host import targets
from tuning.validation import Invalid

pytestmark = pytest.mark.tvm


@pytest.fixture(autouse=True)
def nothing_remembered() -> None:
    targets._ask.cache_clear()


def test_this_machine_names_its_processor_and_cores() -> None:
    resolved = targets.resolve("this")
    assert resolved["device"] == "cpu"
    assert resolved["target"]["kind"] == "llvm"
    assert resolved["target"]["mcpu"]
    assert resolved["target"]["num-cores"] >= 1
    assert resolved["label"].startswith(f"llvm · {resolved['target']['mcpu']} · ")


def test_a_resolved_target_resolves_to_itself() -> None:
    resolved = targets.resolve("this")
    assert targets.resolve(resolved["target"]) == resolved


@pytest.mark.parametrize("target", ["nvidia/no-such-card", "{", '{"kind": "abacus"}', "llvm -mcpu=znver4", "[1, 2]"])
def test_it_says_why_a_target_is_refused(target: str) -> None:
    with pytest.raises(Invalid) as refused:
        targets.resolve(target)
    assert len(refused.value.fields["target"]) > 20
    assert "Traceback" not in refused.value.fields["target"]


def test_it_does_not_even_ask_tvm_about_a_huge_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "_ask", lambda _text: pytest.fail("it asked"))
    for target in ("x" * 1_000_000, {"kind": "llvm", "keys": ["k"] * 10_000}):
        with pytest.raises(Invalid, match="characters long"):
            targets.resolve(target)


def test_a_target_of_a_thousand_levels_is_no_crash() -> None:
    target: dict[str, Any] = {}
    for _ in range(5000):
        target = {"a": target}
    with pytest.raises(Invalid, match="deeply"):
        targets.resolve(target)


def test_an_answer_is_asked_for_once_and_a_failure_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    run = subprocess.run

    def broken(*args: Any, **kwargs: Any) -> Any:
        asked.append(args)
        return run([sys.executable, "-c", "raise SystemExit('no tvm here')"], **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "run", broken)
        for _ in range(2):
            with pytest.raises(Invalid, match="no tvm here"):
                targets.resolve("this")
    assert len(asked) == 2
    targets.resolve("this")
    monkeypatch.setattr(subprocess, "run", broken)
    targets.resolve("this")
    assert len(asked) == 2
