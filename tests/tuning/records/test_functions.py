"""Which functions of records may reach TVM."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.tuning.logs import examples
from tests.tuning.records.hostile import module
from tuning.records import RecordRefused, functions

CALL = {"type": "ir.Call", "data": {"span": 0, "ty": 0, "op": 2, "args": 4, "attrs": 0, "ty_args": 0}}


def calling(operator: str, argument: str = "x") -> list[dict[str, Any]]:
    return [
        {"type": "None"},
        {"type": "ffi.String", "data": argument},
        {"type": "ir.Op", "data": operator},
        {"type": "tirx.StringImm", "data": {"value": 1}},
        {"type": "ffi.Array", "data": [3]},
        CALL,
    ]


def refused(nodes: list[dict[str, Any]]) -> str:
    with pytest.raises(RecordRefused) as caught:
        functions.check_module(module(nodes))
    return str(caught.value)


@pytest.mark.parametrize("made", [examples.old_module(), examples.new_module()], ids=["old", "new"])
def test_it_lets_through_functions_of_each_format(made: dict[str, Any]) -> None:
    functions.check_line(examples.workload("77", made).encode())


@pytest.mark.parametrize("operator", ["tirx.exp", "tir.exp", "prim.if_then_else", "tirx.bitwise_and"])
def test_operators_may_compute(operator: str) -> None:
    functions.check_module(module(calling(operator)))


@pytest.mark.parametrize(
    "operator",
    [
        "tirx.call_extern",
        "tirx.call_pure_extern",
        "tir.call_extern",
        "tirx.call_llvm_intrin",
        "tirx.call_llvm_pure_intrin",
        "tirx.tvm_call_cpacked",
        "tirx.ptx_mma",
        "tirx.reinterpret",
        "tirx.address_of",
        "tirx.tvm_struct_set",
        "relax.call_pure_packed",
        "exp; asm",
    ],
)
def test_operators_may_do_nothing_else(operator: str) -> None:
    assert operator in refused(calling(operator)) or "isn't a name" in refused(calling(operator))


@pytest.mark.parametrize("name", ["runtime.module.loadfile_so", "system", "tvm.contrib.sort", ""])
def test_functions_of_the_process_are_not_called(name: str) -> None:
    assert "calls the function" in refused(calling("tirx.tvm_call_packed", name))


def test_sorting_is_tvms_own() -> None:
    functions.check_module(module(calling("tirx.tvm_call_packed", "tvm.contrib.sort.argsort")))


def test_a_call_is_of_an_operator() -> None:
    nodes = calling("tirx.exp")
    nodes[2] = {"type": "ir.GlobalVar", "data": {"name_hint": 1}}
    assert "something that isn't an operator" in refused(nodes)
    nodes[5] = {"type": "ir.Call", "data": {"op": 99}}
    assert "a node that it doesn't have" in refused(nodes)


@pytest.mark.parametrize(
    "kind",
    [
        "ffi.Module",
        "runtime.Module",
        "relax.expr.ExternFunc",
        "ffi.Function",
        "target.Target",
        "tirx.SBlockX",
        "x.PrimFunc",
    ],
)
def test_types_are_listed(kind: str) -> None:
    assert repr(kind) in refused([{"type": kind}])
    assert repr(kind) in refused([{"type_key": kind}])


@pytest.mark.parametrize("key", ["pragma_import_llvm", "external_mods", "Codegen", "target", "const_name_to_constant"])
@pytest.mark.parametrize("old", [False, True])
def test_attributes_are_listed(key: str, old: bool) -> None:
    text = {"type_key": "runtime.String", "repr_str": key} if old else {"type": "ffi.String", "data": key}
    kind = "type_key" if old else "type"
    assert repr(key) in refused([text, {kind: "Map", "data": [0, 0]}])
    if old:
        assert repr(key) in refused([{"type_key": "Map", "keys": [key], "data": [0]}])


def test_statements_have_no_pragma_with_code() -> None:
    nodes: list[dict[str, Any]] = [
        {"type": "ffi.String", "data": "pragma_import_c"},
        {"type": "tirx.AttrStmt", "data": {"attr_key": 0}},
    ]
    assert "'pragma_import_c'" in refused(nodes)
    nodes[0]["data"] = "pragma_scope"
    functions.check_module(module(nodes))


@pytest.mark.parametrize("name", ['a"; asm volatile("x', "a b", "#include", "a\nb", "x" * 300, "a;b"])
def test_names_could_be_written_into_a_program(name: str) -> None:
    assert "a text that isn't a name" in refused([{"type": "ffi.String", "data": name}])
    assert "a text that isn't a name" in refused([{"type": "tir.Var", "attrs": {"name": name}}])


@pytest.mark.parametrize(
    "line", ["null", "[]", '["1"]', '["1", "no base64!"]', '["1", "bm90IGpzb24gYXQgYWxs"]', json.dumps(["1" * 100, ""])]
)
def test_it_refuses_what_is_no_workload(line: str) -> None:
    with pytest.raises(RecordRefused, match="its workload"):
        functions.check_line(line.encode())


def test_infinities_are_numbers() -> None:
    functions.check_module(module([{"type": "ir.FloatImm", "data": {"value": float("inf")}}]))
