"""What processes that read uploads find around them."""

from __future__ import annotations

import os

import pytest

from tuning.engines.wire.targets import Resolve, TargetInfo
from tuning.host import sandbox, surroundings

SECRETS = ("SECRET_KEY", "DATABASE_URL", "REDIS_URL", "TUNEBOARD_WEBHOOK_SECRET", "AWS_SECRET_ACCESS_KEY")


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SECRETS:
        monkeypatch.setenv(name, "secret")


def test_a_sandboxed_process_finds_no_secrets_and_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_FAKE_CHILD", "look")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    question = Resolve(target="this", remote=False, **sandbox.limits())
    found = sandbox.ask_once("tests.fake_child", question, TargetInfo).target
    assert not found["environment"].keys() & {*SECRETS}
    assert "secret" not in found["environment"].values()
    assert found["environment"]["LC_ALL"] == "C.UTF-8"
    assert [name for name in found["files"] if not name.startswith("packages-")] == []


def test_engines_get_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not surroundings.environment().keys() & {*SECRETS}
    assert not any(surroundings.folder().iterdir())
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    assert surroundings.environment()["PYTHONPATH"].endswith(f"{os.pathsep}/elsewhere")
