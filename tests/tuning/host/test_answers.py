"""What is said of a sandboxed process whose answers can't be answers, and that it ends."""

from __future__ import annotations

import pytest

from tuning.engines.wire.errors import Refused
from tuning.engines.wire.targets import Resolve, TargetInfo
from tuning.host import sandbox


def refusal(monkeypatch: pytest.MonkeyPatch, how: str) -> str:
    monkeypatch.setenv("TVM_FAKE_CHILD", how)
    with pytest.raises(Refused) as refused:
        sandbox.ask_once("tests.fake_child", Resolve(target="this", remote=False, **sandbox.limits()), TargetInfo)
    return str(refused.value)


@pytest.mark.parametrize("how", ["deep", "no JSON", "no text", "other kind", "wrong type"])
def test_it_says_that_an_answer_can_not_be_read(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    assert refusal(monkeypatch, how).startswith("TVM gave an answer that can't be read: ")


@pytest.mark.parametrize(
    ("how", "most"), [("endless line", "128 MiB"), ("endless answers", "256 MiB"), ("endless print", "64 MiB")]
)
def test_it_ends_a_process_that_does_not_stop_talking(monkeypatch: pytest.MonkeyPatch, how: str, most: str) -> None:
    assert f"more than {most}" in refusal(monkeypatch, how)
