"""Which records of auto_scheduler and AutoTVM may reach an older TVM."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.tuning.logs import examples
from tuning.records import why_refused


def scheduled(*steps: Any) -> str | None:
    record = json.loads(examples.auto_scheduler())
    record["i"][1][1] += steps
    return why_refused("auto_scheduler", json.dumps(record))


def tuned(*knobs: Any, args: Any = examples.CONV2D) -> str | None:
    record = json.loads(examples.autotvm(args=args))
    record["config"]["entity"] += knobs
    return why_refused("autotvm", json.dumps(record))


@pytest.mark.parametrize("version", examples.AUTO_SCHEDULER_TASKS)
def test_it_lets_through_what_the_engines_write(version: str) -> None:
    assert why_refused("auto_scheduler", examples.auto_scheduler(version)) is None
    assert why_refused("autotvm", examples.autotvm()) is None
    assert why_refused("autotvm", examples.autotvm(args=examples.VTA)) is None
    assert why_refused("autotvm", examples.old_autotvm()) is None


@pytest.mark.parametrize(
    "pragma",
    [
        "import_llvm",
        "import_c",
        "auto_unroll_max_step$x",
        "auto_unroll_max_step",
        "debug_skip_region",
        "auto_unroll_max_step$1$import_c",
    ],
)
def test_a_pragma_only_unrolls(pragma: str) -> None:
    assert "one of its steps isn't as TVM writes it" in str(scheduled(["PR", 3, 0, pragma]))


@pytest.mark.parametrize(
    "step",
    [
        ["XX", 1],
        ["CHW", 1, 'local"; asm'],
        ["FU", 1, "x"],
        ["SP", 1, 0, 1, [{}], 1],
        [],
        "CI",
        None,
        [["CI"], 1],
        ["AN", 2**40, 0, 0],
    ],
)
def test_steps_are_listed(step: Any) -> None:
    assert "one of its steps isn't as TVM writes it" in str(scheduled(step))


@pytest.mark.parametrize(
    "knob",
    [
        ["x", "py", 1],
        ["x; y", "ot", 1],
        ["x", "ot", "import os"],
        ["x", "an", ["vec", "a;b"]],
        ["x", "ot", {"a": "b;c"}],
        ["x", "ot"],
        "x",
    ],
)
def test_knobs_have_words_and_numbers(knob: Any) -> None:
    assert tuned(knob)


def test_arguments_are_words() -> None:
    assert "isn't a word: 'NCHW; import os'" in str(tuned(args=[*examples.CONV2D, "NCHW; import os"]))


@pytest.mark.parametrize("engine", ["auto_scheduler", "autotvm"])
@pytest.mark.parametrize("text", ["", "null", "[]", "{}", '{"input": 1}', '{"i": [[], 1]}'])
def test_it_refuses_what_is_no_record(engine: str, text: str) -> None:
    reason = why_refused(engine, text)
    assert reason or (engine == "autotvm" and '"input"' not in text)
