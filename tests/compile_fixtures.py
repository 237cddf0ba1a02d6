"""Fixtures that replace the compiler with a fake one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tuning.work import compiling

Compiler = Callable[[str], None]


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Compiler:
    """Builds and proves without TVM. Call it to make the next processes misbehave (see `tests.fake_compiler`)."""
    monkeypatch.setattr(compiling, "COMPILER", "tests.fake_compiler")
    monkeypatch.setattr(compiling, "PROVER", "tests.fake_compiler")
    monkeypatch.setattr(compiling, "LOOKER", "tests.fake_looker")
    monkeypatch.delenv("TVM_FAKE_COMPILER", raising=False)
    return lambda how: monkeypatch.setenv("TVM_FAKE_COMPILER", how)
