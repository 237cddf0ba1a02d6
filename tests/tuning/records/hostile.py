"""Traces and functions as records have them, and what an attacker would put into them."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]

ASSEMBLY = 'module asm ".globl canary"'
"""LLVM's code, which `pragma_import_llvm` has TVM link into what it builds."""
BLOCK: list[Any] = ["GetSBlock", [], ["C", "main"], ["b0"]]
LOOPS: list[Any] = ["GetLoops", ["b0"], [], ["l1", "l2", "l3"]]
HONEST: list[list[Any]] = [
    BLOCK,
    LOOPS,
    ["SamplePerfectTile", ["l1"], [2, 64], ["v4", "v5"]],
    ["Split", ["l1", "v4", "v5"], [1, 0], ["l6", "l7"]],
    ["Annotate", ["b0", '"SSRSRS"'], ["meta_schedule.tiling_structure"], []],
    ["Annotate", ["l6", 16], ["pragma_auto_unroll_max_step"], []],
    ["EnterPostproc", [], [], []],
]


def trace(*more: list[Any], decisions: Iterable[Any] = ((2, [32, 2]),)) -> bytes:
    """A trace with these instructions after honest ones."""
    return json.dumps([[*HONEST, *more], list(decisions)]).encode()


def module(nodes: list[Json]) -> str:
    """A module of a workload file."""
    text = json.dumps({"root_index": len(nodes) - 1, "nodes": nodes, "metadata": {"tvm_version": "0.27.0"}}).encode()
    return base64.b64encode(struct.pack("<Q", len(text)) + text).decode()


def nodes_of(encoded: str) -> list[Json]:
    nodes: list[Json] = json.loads(base64.b64decode(encoded)[8:])["nodes"]
    return nodes


INDEX_MAP: list[Json] = [
    {"type": "None"},
    {"type": "ir.PrimType", "data": {"span": 0, "dtype": "int32"}},
    {"type": "ffi.String", "data": "i"},
    {"type": "ir.Var", "data": {"span": 0, "ty": 1, "name": 2}},
    {"type": "ffi.Array", "data": [3]},
    {"type": "int", "data": 4},
    {"type": "ir.IntImm", "data": {"span": 0, "ty": 1, "value": 5}},
    {"type": "prim.FloorDiv", "data": {"span": 0, "ty": 1, "a": 3, "b": 6}},
    {"type": "ffi.Array", "data": [7]},
    {"type": "tirx.IndexMap", "data": {"initial_indices": 4, "final_indices": 8, "inverse_index_map": 0}},
]


def index_map(nodes: list[Json] = INDEX_MAP) -> str:
    return json.dumps({"root_index": len(nodes) - 1, "nodes": nodes})
