"""What records tell of a search's choices."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tuning.schedules.choices import Choice, choices_of, loops_of

TENSORIR = """\
@T.prim_func
def main(A: T.handle):
    for i0, i1, k in T.grid(4, 8, 16):
        with T.sblock("matmul"):
            vi = T.axis.spatial(4, i0)
    for ax0 in range(4):
        for ax1 in T.serial(8):
            with T.sblock("T_add"):
                pass
"""
INSTRUCTIONS: list[Any] = [
    ["GetSBlock", [], ["matmul", "main"], ["b0"]],
    ["GetSBlock", [], ["root", "main"], ["b2"]],
    ["GetLoops", ["b0"], [], ["l3", "l4", "l5"]],
    ["SamplePerfectTile", ["l3"], [4, 64], ["v6", "v7", "v8", "v9"]],
    ["SamplePerfectTile", ["l5"], [2, 64], ["v22", "v23"]],
    ["SampleComputeLocation", ["b0"], [], ["l30"]],
    ["SampleCategorical", [], [[0, 16, 64], [0.3, 0.3, 0.4]], ["v27"]],
    ["Annotate", ["b2", "v27"], ["meta_schedule.unroll_explicit"], []],
    ["EnterPostproc", [], [], []],
    ["SamplePerfectTile", ["l3"], [2, 64], ["v90", "v91"]],
]
DECISIONS: list[Any] = [[3, [1, 2, 2, 1]], [4, [4, 4]], [5, -1], [6, 1], [9, [2, 2]]]


def traced(instructions: list[Any] = INSTRUCTIONS, decisions: list[Any] = DECISIONS) -> str:
    return json.dumps([0, [[instructions, decisions], [1e-3], {}, []]])


def test_decisions_of_a_trace_are_named_by_loops_and_blocks() -> None:
    found = choices_of("meta_schedule", traced(), loops_of(TENSORIR)).choices
    tile = "tiling of i0 of matmul"
    assert found == [
        Choice(tile, "factor 1 of 4, outermost", 1),
        Choice(tile, "factor 2 of 4", 2),
        Choice(tile, "factor 3 of 4", 2),
        Choice(tile, "factor 4 of 4, innermost", 1),
        Choice("tiling of k of matmul", "factor 2 of 2, innermost", 4),
        Choice("place of matmul", "", "own loops"),
        Choice("unroll_explicit of root", "", 16),
    ]


def test_factors_that_are_offered_or_given_are_named_by_their_loop() -> None:
    """As those of tiles in registers. TVM's own are drawn all at once."""
    instructions = [
        *INSTRUCTIONS[:3],
        ["SampleCategorical", [], [[4, 7, 14], [0.3, 0.3, 0.4]], ["v6"]],
        ["Split", ["l3", None, "v6"], [1, 0], ["l7", "l8"]],
        ["Split", ["l4", None, 2, 16], [1, 0], ["l9", "l10", "l11"]],
        ["Split", ["l8", None, 2], [1, 0], ["l12", "l13"]],
    ]
    assert choices_of("meta_schedule", traced(instructions, [[3, 2]]), loops_of(TENSORIR)).choices == [
        Choice("tiling of i0 of matmul", "factor 2 of 2, innermost", 14),
        Choice("tiling of i1 of matmul", "factor 2 of 3", 2),
        Choice("tiling of i1 of matmul", "factor 3 of 3, innermost", 16),
    ]


def test_loops_that_are_not_the_functions_are_counted() -> None:
    found = choices_of("meta_schedule", traced(), {"matmul": ["i", "j"]}).choices
    assert found[0].of == "tiling of loop 1 of matmul"


def test_loops_are_read_from_grids_and_nests() -> None:
    assert loops_of(TENSORIR) == {"matmul": ["i0", "i1", "k"], "T_add": ["ax0", "ax1"]}


def test_another_sequence_of_instructions_is_another_space() -> None:
    space = choices_of("meta_schedule", traced(), {}).space
    other_values = [[3, [2, 2, 1, 1]], *DECISIONS[1:]]
    assert choices_of("meta_schedule", traced(decisions=other_values), {}).space == space
    assert choices_of("meta_schedule", traced([*INSTRUCTIONS, ["Unroll", ["l3"], [], []]]), {}).space == space
    shorter = [*INSTRUCTIONS[:7], *INSTRUCTIONS[8:]]
    assert choices_of("meta_schedule", traced(shorter, DECISIONS[:4]), {}).space != space


def test_autotvms_splits_are_taken_apart() -> None:
    record = json.dumps(
        {"config": {"entity": [["tile_x", "sp", [-1, 8]], ["unroll", "ot", 16], ["order", "re", [1, 0]]]}}
    )
    assert choices_of("autotvm", record, {}).choices == [
        Choice("tile_x", "factor 1 of 2", "rest"),
        Choice("tile_x", "factor 2 of 2", 8),
        Choice("unroll", "", 16),
        Choice("order", "", "1, 0"),
    ]


def test_auto_schedulers_steps_make_the_space() -> None:
    def found(length: int, stage: int = 2) -> Any:
        steps = [["SP", stage, 0, 64, [length, 4], 1], ["PR", 2, 0, "auto_unroll_max_step$64"], ["FU", 2, [0, 1]]]
        return choices_of("auto_scheduler", json.dumps({"i": [["task"], [[], steps]]}), {})

    assert found(2).choices == [
        Choice("step 1: split of S2", "factor 2 of 3", 2),
        Choice("step 1: split of S2", "factor 3 of 3", 4),
        Choice("step 2: auto_unroll_max_step", "", 64),
    ]
    assert found(2).space == found(8).space != found(2, stage=3).space


@pytest.mark.parametrize("engine", ["meta_schedule", "autotvm", "auto_scheduler"])
@pytest.mark.parametrize("record", ["", "{}", "[]", "null", "[0,[[[],[[7,1]]],[1],{},[]]]"])
def test_what_is_no_record_is_refused(engine: str, record: str) -> None:
    with pytest.raises(ValueError, match="record of"):
        choices_of(engine, record, {})
