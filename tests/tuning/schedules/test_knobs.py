from __future__ import annotations

import json
from typing import Any

import pytest

from tuning.schedules.knobs import Knob, side_by_side


def record(*entities: list[Any]) -> str:
    config = {"index": 1, "code_hash": None, "entity": list(entities)}
    return json.dumps(
        {"input": ["llvm", "dense", [], {}], "config": config, "result": [[1e-3], 0, 1, 1], "version": 0.2}
    )


def test_it_sets_the_knobs_of_several_records_side_by_side() -> None:
    records = [
        record(["tile_x", "sp", [-1, 8]], ["ann_reduce", "an", "unroll"]),
        record(["tile_x", "sp", [-1, 8]], ["ann_reduce", "an", "none"]),
        record(["tile_x", "sp", [-1, 4]], ["auto_unroll", "ot", 512]),
    ]
    assert side_by_side(records) == [
        Knob("tile_x", "split", ["rest × 8", "rest × 8", "rest × 4"], "rest × 8", 2),
        Knob("ann_reduce", "annotate", ["unroll", "none", ""], "", 0),
        Knob("auto_unroll", "choice", ["", "", "512"], "", 0),
    ]


def test_one_record_shares_nothing_with_others() -> None:
    assert side_by_side([record(["order", "re", [0, 2, 1]])]) == [Knob("order", "reorder", ["0, 2, 1"], "", 0)]


def test_it_reads_the_older_format() -> None:
    entities = [["tile_x", "sp", 2, [4, 8]]]
    old = {"i": ["llvm", "conv2d", [], {}, None, {"i": 3, "t": "direct", "c": None, "e": entities}], "r": [], "v": 0.1}
    assert side_by_side([json.dumps(old)])[0].values == ["4 × 8"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"config":{"entity":[["a"]]}}', '{"config":{"entity":3}}'])
def test_it_refuses_what_is_no_record(text: str) -> None:
    with pytest.raises(ValueError, match="isn't a record of AutoTVM"):
        side_by_side([text])
