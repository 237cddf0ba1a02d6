"""The numbers of errors."""

from __future__ import annotations

from typing import get_args

import pytest

from tuning.engines.wire import protocol
from tuning.logs import errors


def test_engines_may_report_the_same_kinds() -> None:
    assert set(get_args(protocol.ErrorKind)) == set(errors.KINDS)


@pytest.mark.parametrize("engine", ["auto_scheduler", "autotvm"])
def test_every_number_has_a_name_a_kind_and_a_sentence(engine: str) -> None:
    found = [errors.named(engine, number) for number in range(10)]
    assert [error.name for error in found] == [
        "NO_LATENCY",
        "INSTANTIATION_ERROR",
        "COMPILE_HOST",
        "COMPILE_DEVICE",
        "RUNTIME_DEVICE",
        "WRONG_ANSWER",
        "BUILD_TIMEOUT",
        "RUN_TIMEOUT",
        "UNKNOWN_ERROR",
        "UNNAMED",
    ]
    assert all(error.kind in errors.KINDS and error.meaning.endswith(".") for error in found)


def test_kinds_fit_their_column() -> None:
    assert max(map(len, errors.KINDS)) <= 20


def test_six_was_a_fleet_error_only_of_autotvm_and_only_until_2018() -> None:
    assert errors.named("autotvm", 6, 1_535_000_000).name == "FLEET_ERROR"
    assert errors.named("autotvm", 6, 1_536_000_000).name == "BUILD_TIMEOUT"
    assert errors.named("autotvm", 6).name == "BUILD_TIMEOUT"
    assert errors.named("auto_scheduler", 6, 1_535_000_000).name == "BUILD_TIMEOUT"
