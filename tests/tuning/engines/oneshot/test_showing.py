"""A record's schedule as TVM applies it."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import pytest

from tests.tuning.engines.running import Engine, options, start
from tuning.engines.oneshot.showing import show
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.protocol import NetworkSpec

pytestmark = [pytest.mark.tvm, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.

CONV = NetworkSpec("conv2d", {"size": 8, "channels": 16})


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Records of a convolution: its schedules pack the weight and place the padding."""
    folder = tmp_path_factory.mktemp("conv")
    return recorded(folder, schedule_rules="tvm")


def recorded(folder: Path, **given: object) -> list[str]:
    asked = start(folder / "work", network=CONV, trials_budget=12, options=options(**given))
    with Engine(asked, folder / "console.log") as engine:
        engine.to_the_end()
    return [str(trial.record) for trial in engine.trials if trial.record]


def tuning_record(text: str) -> tuple[Any, Any]:
    from tvm.s_tir import meta_schedule as ms

    shared, record = json.loads(text)
    workload = ms.database.Workload.from_json(shared)
    return workload.mod, ms.database.TuningRecord.from_json(record, workload)


def test_the_code_is_tvms_and_produces_the_tensorir(records: list[str]) -> None:
    from tvm import s_tir

    for text in records:
        shown = show(text)
        mod, record = tuning_record(text)
        assert shown.code == str(record.trace)
        schedule = s_tir.Schedule(mod)
        record.trace.apply_to_schedule(schedule, remove_postproc=False)
        assert shown.tensorir == schedule.mod.script()
        assert shown.tensorir != mod.script()


def test_loops_have_the_names_that_they_had_when_they_were_split(records: list[str]) -> None:
    for text in records:
        tiles = [one for one in show(text).decisions if one.instruction == "sample_perfect_tile"]
        assert [(one.of, one.block) for one in tiles[:4]] == [
            (name, "conv2d_nhwc") for name in ("nn", "yy", "xx", "ff")
        ]
        assert all(prod(one.decision) == one.extent for one in tiles)
        assert all(one.choice == " × ".join(map(str, one.decision)) for one in tiles)


def test_it_shows_every_decision_of_the_trace(records: list[str]) -> None:
    for text in records:
        _, record = tuning_record(text)
        shown = show(text)
        assert len(shown.decisions) == len(record.trace.decisions)
        for one in shown.decisions:
            assert f"sch.{one.instruction}(" in shown.code


def test_it_puts_decisions_into_words(records: list[str]) -> None:
    decisions = [one for text in records for one in show(text).decisions]
    unrolled = [one for one in decisions if one.instruction == "sample_categorical"]
    assert {(one.of, one.block) for one in unrolled} == {("meta_schedule.unroll_explicit", "root")}
    assert all(one.choice == one.among[one.decision] for one in unrolled)
    places = [one for one in decisions if one.instruction == "sample_compute_location"]
    assert {one.of for one in places} == {"pad_temp"}
    words = {-1: "in loops of its own", -2: "inlined"}
    for one in places:
        assert one.choice == words[one.decision] if one.decision in words else one.choice.startswith("in loop ")
    assert any(one.decision >= 0 for one in places)


@pytest.mark.rare
def test_tiles_in_registers_are_told_with_their_loops(tmp_path: Path) -> None:
    shown = [
        show(text) for text in recorded(tmp_path, schedule_rules="extended") if '"registers' in text.replace("\\", "")
    ]
    assert shown
    for one in shown:
        *tiles, unrolled = [each for each in one.decisions if each.instruction == "sample_categorical"]
        assert unrolled.of == "meta_schedule.unroll_explicit"
        assert [each.block for each in tiles] == ["conv2d_nhwc"] * 2
        assert tiles[0].of in ("xx", "ff")
        assert all(each.extent and each.extent % int(each.choice) == 0 for each in tiles)


def test_it_says_when_weights_are_packed(records: list[str]) -> None:
    shown = [show(text) for text in records]
    assert any(one.packs for one in shown)
    assert [one.packs for one in shown] == ["layout_rewrite_preproc" in one.tensorir for one in shown]


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (
            lambda text: text.replace('"conv2d_nhwc"', '"nothing"'),
            'apply its GetSBlock .*"nothing".*Cannot find a block',
        ),
        (
            lambda text: text.replace("SamplePerfectTile", "SampleNothing"),
            "can't be used: its instruction .* of a kind that isn't known here: 'SampleNothing'",
        ),
        (lambda text: text[:-3], "can't be used: it isn't as TVM writes it"),
        (lambda _: '["0.001"]', "can't be used: it isn't as TVM writes it"),
        (lambda text: '[["1", "bm90IGEgbW9kdWxl"]' + text[text.index('"],') + 2 :], "can't be used: its workload"),
    ],
)
def test_it_says_why_a_record_cannot_be_applied(records: list[str], spoil: Callable[[str], str], reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        show(spoil(records[0]))
