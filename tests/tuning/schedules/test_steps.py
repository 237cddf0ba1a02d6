from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuning.schedules.loops import MOST_LOOPS
from tuning.schedules.steps import STEPS, explain


def record(*steps: list[Any]) -> str:
    key = '["dense", 1, 64, 64, "float32"]'
    return json.dumps({"i": [[key, "llvm"], [[], list(steps)]], "r": [[1e-3], 0, 1.0, 1], "v": "v0.6"})


TILED: tuple[list[Any], ...] = (
    ["SP", 2, 0, 64, [4, 2], 1],
    ["SP", 2, 3, 32, [8], 1],
    ["RE", 2, [0, 3, 1, 2, 4]],
    ["FU", 2, [0, 1]],
    ["AN", 2, 0, 3],
    ["AN", 2, 3, 2],
    ["PR", 2, 0, "auto_unroll_max_step$512"],
)


def test_it_tells_each_step_and_the_loops_that_they_give() -> None:
    told = explain(record(*TILED))
    assert told.trouble is None
    assert told.steps == [
        "Split i0 of S2 of extent 64 into 8 × 4 × 2",
        "Split i1 of S2 of extent 32 into 4 × 8",
        "Reorder S2 to i0.0, i1.0, i0.1, i0.2, i1.1",
        "Fuse 2 loops of S2 into i0.0@i1.0, extent 32",
        "Run i0.0@i1.0 of S2 in parallel",
        "Vectorize i1.1 of S2",
        "Mark i0.0@i1.0 of S2: unroll up to 512 steps automatically",
    ]
    assert told.loops == [
        "S2",
        "  parallel i0.0@i1.0 (32)  # unroll up to 512 steps automatically",
        "    for i0.1 (4)",
        "      for i0.2 (2)",
        "        vectorize i1.1 (8)",
    ]


def test_a_cache_is_computed_inside_the_stage_that_it_is_of_and_later_stages_get_other_numbers() -> None:
    told = explain(
        record(
            ["CHW", 1, "local"],
            ["SP", 2, 0, 16, [4], 1],
            ["CA", 1, 2, 0],
            ["SP", 1, 0, 4, [2], 1],
            ["CI", 0],
            ["AN", 2, 1, 1],
        )
    )
    assert told.steps[0] == "Write S1 through a cache in local memory, S1.local"
    assert told.steps[2] == "Compute S1.local at i0.0 of S1"
    assert told.loops == [
        "S1",
        "  for i0.0 (4)",
        "    S1.local",
        "      for i0.0",
        "        for i0.1 (2)",
        "    unroll i0.1 (4)",
    ]
    assert told.inlined == ["S0"]


def test_a_cache_read_names_its_readers() -> None:
    told = explain(record(["CHR", 0, "shared", [1]], ["CA", 1, 2, 0], ["AN", 2, 0, 6]))
    assert told.steps == [
        "Read S0 through a cache in shared memory, S0.shared, for S1",
        "Compute S0.shared at i0 of S1",
        "Bind i0 of S1 to threadIdx.x",
    ]
    assert told.loops == ["S1", "  threadIdx.x i0", "    S0.shared"]


def test_a_following_split_has_the_factors_of_the_one_that_it_follows() -> None:
    told = explain(record(["SP", 0, 0, 64, [4, 2, 8], 1], ["FSP", 1, 0, 0, 2], ["FFSP", 2, 0, [0], 1, 1]))
    assert told.steps[1:] == [
        "Split i0 of S1 as step 1 does, into ? × 4 × 16",
        "Split i0 of S2 as steps 1 do at level 2, into ? × 2",
    ]


def test_a_factored_reduction_has_loops_that_the_record_does_not_tell() -> None:
    told = explain(record(["SP", 0, 1, 64, [16], 1], ["RF", 0, 2, 1], ["AN", 1, 0, 2]))
    assert told.steps[1:] == [
        "Factor the reduction over i1.1 of S0 out into S0.rf, as its loop 1",
        "Vectorize i0 of S0",
    ]


def test_a_stage_computed_at_the_root_again_is_no_longer_inside() -> None:
    told = explain(record(["AN", 1, 0, 3], ["CA", 0, 1, 0], ["CR", 0], ["AN", 0, 0, 2]))
    assert told.loops == ["S0", "  vectorize i0", "S1", "  parallel i0"]


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (["XX", 1], "the kind XX is unknown"),
        (["AN", 10**9, 0, 1], "stage 1000000000 can't exist"),
        (["AN", 0, -1, 1], "loop -1 of S0 can't exist"),
        (["FSP", 0, 0, 0, 1], "step 1 isn't a split"),
        (["AN", 0], "missing"),
    ],
)
def test_it_stops_at_a_step_that_it_cannot_apply_and_says_which(step: list[Any], why: str) -> None:
    told = explain(record(["AN", 0, 0, 3], step))
    assert len(told.steps) == 1
    assert told.trouble is not None
    assert told.trouble.startswith("Step 2, ")
    assert why in told.trouble


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"i":[[],[[],3]]}', "[0,[[],[]]]"])
def test_it_refuses_what_is_no_record(text: str) -> None:
    with pytest.raises(ValueError, match="isn't a record of auto_scheduler"):
        explain(text)


FIELDS = st.integers(-3, 40) | st.lists(st.integers(-1, 9), max_size=4) | st.text(max_size=3) | st.none()


@given(st.lists(st.tuples(st.sampled_from(list(STEPS)), st.lists(FIELDS, max_size=5)), max_size=12))
def test_any_steps_are_explained_up_to_the_first_bad_one(steps: list[tuple[str, list[Any]]]) -> None:
    told = explain(record(*([kind, *fields] for kind, fields in steps)))
    assert len(told.steps) == len(steps) or told.trouble


def test_many_splits_end_with_a_reason() -> None:
    told = explain(record(*(["SP", 0, 0, 2, [1] * 100, 1] for _ in range(MOST_LOOPS))))
    assert told.trouble is not None
    assert "too many loops" in told.trouble
