"""Which traces may reach TVM."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tests.tuning.records.hostile import ASSEMBLY, INDEX_MAP, index_map, trace
from tuning.records import RecordRefused, traces

LAYOUT: list[Any] = ["TransformLayout", ["b0", index_map()], [0, 0, None, 1], []]


def refused(text: bytes) -> str:
    with pytest.raises(RecordRefused) as caught:
        traces.check_trace(text)
    return str(caught.value)


def test_it_lets_through_what_tvm_writes() -> None:
    traces.check_trace(trace())
    traces.check_trace(
        trace(LAYOUT, ["CacheRead", ["b0", ["b0"]], [1, "shared"], ["b9"]], ["Bind", ["l6"], ["threadIdx.x"], []])
    )
    traces.check_trace(b"[[],[]]")


@pytest.mark.parametrize(
    "key",
    [
        "pragma_import_llvm",
        "pragma_import_c",
        "pragma_scope",
        "pragma_debug_skip_region",
        "tir.pragma_import_llvm",
        "my_own",
    ],
)
@pytest.mark.parametrize("value", [f'"{ASSEMBLY}"', '"x"', 1, ["b0"], {"pragma_import_llvm": "x"}])
def test_it_refuses_annotations_that_are_not_listed(key: str, value: Any) -> None:
    assert f"its annotation {key!r} isn't one that records may have" in refused(
        trace(["Annotate", ["b0", value], [key], []])
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("meta_schedule.tiling_structure", f'"{ASSEMBLY}"'),
        ("meta_schedule.tiling_structure", '"' + "x" * 1000 + '"'),
        ("pragma_auto_unroll_max_step", '"pragma_import_llvm"'),
        ("pragma_unroll_explicit", {"pragma_import_llvm": ASSEMBLY}),
        ("software_pipeline_stage", [0, ASSEMBLY]),
        ("software_pipeline_order", list(range(1000))),
        ("meta_schedule.parallel", 2**40),
        ("meta_schedule.parallel", index_map()),
        ("meta_schedule.vectorize", None),
        ("buffer_dim_align", [[["x"]]]),
    ],
)
def test_it_refuses_values_of_another_type_or_length(key: str, value: Any) -> None:
    assert "isn't as TVM writes it" in refused(trace(["Annotate", ["b0", value], [key], []]))


@pytest.mark.parametrize(
    "instruction",
    [
        ["RunPython", ["b0"], ["import os"], []],
        ["annotate", ["b0", 1], ["pragma_import_llvm"], []],
        ["", [], [], []],
    ],
)
def test_it_refuses_kinds_that_are_not_listed(instruction: list[Any]) -> None:
    assert "is of a kind that isn't known here" in refused(trace(instruction))


@pytest.mark.parametrize(
    "instruction",
    [
        ["GetSBlock", [index_map()], ["C", "main"], ["b9"]],
        ["GetSBlock", [], ['C"; system("x")', "main"], ["b9"]],
        ["Split", ["l1", index_map()], [1, 0], ["l9"]],
        ["Split", ["l1", "x"], [1, 0], ["l9"]],
        ["CacheRead", ["b0", []], [0, 'shared"; asm("x")'], ["b9"]],
        ["CacheRead", ["b0", [], "more"], [0, "shared"], ["b9"]],
        ["Bind", ["l1"], ["threadIdx.x; asm"], []],
        ["UnsafeSetDType", ["b0"], [0, "handle; x"], []],
        ["Tensorize", ["b0"], ["intrin(); x", 1], []],
        ["Unannotate", ["b0"], ["a key; x"], []],
        ["Fuse", ["l1"] * 300, [1], ["l9"]],
        ["Fuse", ["l1"], [1], ["out; put"]],
        ["Fuse", ["l1"], [1]],
        "Fuse",
        {"kind": "Fuse"},
        None,
    ],
)
def test_it_refuses_what_tvm_would_not_write(instruction: Any) -> None:
    assert "isn't as TVM writes it" in refused(trace(instruction))


def test_an_annotation_may_not_be_removed_by_a_key_that_is_not_listed() -> None:
    assert "'pragma_import_c'" in refused(trace(["Unannotate", ["b0"], ["pragma_import_c"], []]))


def spoiled(place: int, **changes: Any) -> str:
    nodes = copy.deepcopy(INDEX_MAP)
    nodes[place] |= changes
    return index_map(nodes)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (spoiled(0, type="ffi.Module"), "a part that isn't read here: 'ffi.Module'"),
        (spoiled(7, type="ir.Call"), "a part that isn't read here: 'ir.Call'"),
        (spoiled(7, type="relax.expr.ExternFunc"), "a part that isn't read here"),
        (spoiled(4, data=[4]), "refers to a node that doesn't come before"),
        (spoiled(7, data={"span": 0, "ty": 1, "a": 9, "b": 6}), "refers to a node that doesn't come before"),
        (spoiled(2, data="i; asm volatile"), "a text that isn't a name"),
        ('{"nodes": [], "nodes": [{"type": "ffi.Module"}]}', ""),
        ('{"root_index": 0, "nodes": [{"type": "None", "type": "int", "data": 0}]}', "a key twice"),
        ("{}", "isn't as TVM writes it"),
        ('{"nodes": [' + "[" * 5000, ""),
    ],
)
def test_it_looks_into_objects(text: str, reason: str) -> None:
    found = refused(trace(["TransformLayout", ["b0", text], [0, 0, None, 1], []]))
    assert reason in found
    assert found == refused(trace(["TransformBlockLayout", ["b0"], [text], []]))


def test_packages_of_nodes_are_known() -> None:
    assert "'evil.Add'" in refused(trace(["TransformBlockLayout", ["b0"], [spoiled(7, type="evil.Add")], []]))


@pytest.mark.parametrize(
    "decisions", [[[7, 1]], [[2**31, 1]], [[-1, 1]], [[0, "x"]], [[0, {"x": 1}]], [[0]], [[0, index_map()]]]
)
def test_decisions_are_about_an_instruction_and_numbers(decisions: list[Any]) -> None:
    """TVM writes a decision to the place that it names, without looking whether there is one."""
    assert refused(trace(decisions=decisions))


def test_what_was_checked_once_is_not_taken_for_something_else() -> None:
    honest = trace(["Annotate", ["l6", 16], ["pragma_auto_unroll_max_step"], []])
    traces.check_trace(honest)
    refused(honest.replace(b"pragma_auto_unroll_max_step", b"pragma_import_llvm"))
    traces.check_trace(honest)
    assert refused(json.dumps([json.loads(honest)[0], [[99, 1]]]).encode())


@pytest.mark.parametrize("text", [b"", b"null", b"{}", b"[[]]", b'[[],"x"]', b"[[[]],[]]", b"\xff", b"[" * 100_000])
def test_it_refuses_what_is_no_trace(text: bytes) -> None:
    refused(text)
