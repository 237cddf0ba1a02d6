"""Saved modules that could harm whoever reads or builds them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import models
from tuning.engines.wire.errors import Refused

pytestmark = pytest.mark.tvm
Json = dict[str, Any]


@pytest.fixture
def saved() -> Json:
    """A module as TVM saves it."""
    saved: Json = json.loads(models.relax_json())
    return saved


def read(saved: Json | bytes) -> Any:
    from tuning.engines.networks.uploaded import modules

    return modules.read(saved if isinstance(saved, bytes) else json.dumps(saved).encode(), {})[0]


def with_attribute(name: str, value: Any) -> bytes:
    import tvm

    mod = tvm.ir.load_json(models.relax_json().decode())
    return str(tvm.ir.save_json(mod.with_attr(name, value))).encode()


def nodes(saved: Json, kind: str) -> list[int]:
    return [index for index, node in enumerate(saved["nodes"]) if node["type"] == kind]


def test_a_library_in_an_attribute_is_refused(tmp_path: Path) -> None:
    import tvm

    library = tmp_path / "library.o"
    library.write_bytes(b"code that would run as soon as the network is loaded")
    module = tvm.runtime.load_static_library(str(library), ["run_me"])
    with pytest.raises(Refused, match=r"ffi\.Module.*compiled code"):
        read(with_attribute("external_mods", [module]))


def test_only_functions_are_kept() -> None:
    mod = read(with_attribute("system_lib_prefix", "mine_"))
    assert not mod.attrs
    assert not mod.global_infos
    assert [dict(function.attrs) for function in mod.functions.values()] == [{"global_symbol": "main"}]


def test_attributes_of_functions_are_dropped() -> None:
    """With `Codegen`, another compiler would get the function."""
    import tvm

    mod = tvm.ir.load_json(models.relax_json().decode())
    saved = tvm.ir.save_json(tvm.IRModule({"main": mod["main"].with_attr("Codegen", "mine")}))
    assert [dict(function.attrs) for function in read(saved.encode()).functions.values()] == [{"global_symbol": "main"}]


def refer_to_itself(saved: Json) -> None:
    index = nodes(saved, "ffi.Array")[-1]
    saved["nodes"][index]["data"] = [index]


def refer_in_a_circle(saved: Json) -> None:
    first, *_, last = nodes(saved, "ffi.Array")
    saved["nodes"][first]["data"] = [last]
    saved["nodes"][last]["data"] = [first]


def refer_from_a_field(saved: Json) -> None:
    index = nodes(saved, "relax.expr.SeqExpr")[0]
    saved["nodes"][index]["data"]["body"] = index


def refer_to_nothing(saved: Json) -> None:
    saved["nodes"][nodes(saved, "ffi.Array")[0]]["data"] = [-1]


def put_a_map_into_a_number(saved: Json) -> None:
    saved["nodes"][nodes(saved, "ir.IntImm")[0]]["data"]["value"] = {"a": 1}


def name_no_operator(saved: Json) -> None:
    saved["nodes"][nodes(saved, "ir.Op")[0]]["data"] = ["relax.add"]


def truncate_a_tensor(saved: Json) -> None:
    node = saved["nodes"][nodes(saved, "ffi.Tensor")[0]]
    node["data"] = node["data"][:40]


def begin_elsewhere(saved: Json) -> None:
    saved["root_index"] = nodes(saved, "relax.expr.Function")[0]


def call_by_name_in_a_shape(saved: Json) -> None:
    """Shapes are computed by generated code, which could call any function of the process."""
    saved["nodes"][nodes(saved, "ir.Op")[0]]["data"] = "tirx.call_packed"


def make_an_operator_up(saved: Json) -> None:
    saved["nodes"][nodes(saved, "ir.Op")[0]]["data"] = "relax.no_such_operator"


def hide_a_function(saved: Json) -> None:
    saved["nodes"].insert(-1, saved["nodes"][nodes(saved, "relax.expr.Function")[0]])
    saved["root_index"] += 1


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (refer_to_itself, "refers to a node that doesn't come before it"),
        (refer_in_a_circle, "refers to a node that doesn't come before it"),
        (refer_from_a_field, r"\(relax.expr.SeqExpr\) of the module refers to a node"),
        (refer_to_nothing, "refers to a node that doesn't come before it"),
        (put_a_map_into_a_number, r"\(ir.IntImm\) of the module isn't as TVM writes it"),
        (name_no_operator, r"\(ir.Op\) of the module isn't as TVM writes it"),
        (truncate_a_tensor, "TVM can't read this IRModule"),
        (begin_elsewhere, "doesn't contain an IRModule"),
        (call_by_name_in_a_shape, "tirx.call_packed"),
        (make_an_operator_up, "relax.no_such_operator"),
        (hide_a_function, "functions within functions"),
    ],
)
def test_a_spoiled_module_is_refused(saved: Json, spoil: Callable[[Json], None], words: str) -> None:
    spoil(saved)
    with pytest.raises(Refused, match=words):
        read(saved)


def test_tvm_sees_what_was_checked() -> None:
    """Of two values with the same key, parsers may take either."""
    import tvm

    harmless = models.relax_json()
    hidden = harmless.replace(b'{"type":"ir.IRModule"', b'{"type":"ffi.Module","type":"ir.IRModule"')
    assert hidden != harmless
    tvm.ir.assert_structural_equal(read(hidden), read(harmless))


def test_infinities_are_read() -> None:
    import tvm
    from tvm import relax

    x = relax.Var("x", relax.TensorType((4,), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(relax.op.clip(x, 0.0, float("inf"))))
    assert "clip" in str(read(tvm.ir.save_json(bb.get()).encode()))
