"""Targets for an older TVM, and what else a launch asks of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.older_tvm import FOUND
from tuning.engines.wire.engines import ENGINES
from tuning.engines.wire.options.legacy import AutoSchedulerOptions, AutoTvmOptions
from tuning.host import interpreters
from tuning.host.interpreters import Asked
from tuning.host.older import legacy_tvm
from tuning.validation import Invalid

AVX2 = {"avx2", "fma", "bmi1", "bmi2"}


def resolve(given: Any, *, remote: bool = False, **changes: Any) -> dict[str, Any]:
    found = msgspec.structs.replace(FOUND, **changes)
    return dict(legacy_tvm.resolve(given, found, remote=remote))


@pytest.mark.parametrize(
    ("given", "target"),
    [
        ("llvm", {"kind": "llvm"}),
        ("llvm -mcpu=core-avx2", {"kind": "llvm", "mcpu": "core-avx2"}),
        ("llvm --mattr=+avx2,+fma -num-cores=4", {"kind": "llvm", "mattr": ["+avx2", "+fma"], "num-cores": 4}),
        ('{"kind": "llvm", "mcpu": "haswell"}', {"kind": "llvm", "mcpu": "haswell"}),
        ({"kind": "llvm", "mtriple": "x86_64-linux-gnu"}, {"kind": "llvm", "mtriple": "x86_64-linux-gnu"}),
    ],
)
def test_it_takes_targets_as_older_tvms_write_them(given: Any, target: dict[str, Any]) -> None:
    resolved = resolve(given)
    assert (resolved["target"], resolved["device"]) == (target, "cpu")
    assert resolved["label"]


def test_a_tvm_that_compiles_for_another_machine_is_told_of_this_one() -> None:
    cpu = {"kind": "llvm", "mtriple": "x86_64-linux-gnu"}
    assert resolve("llvm -mcpu=core-avx2", cpu=cpu)["target"] == {**cpu, "mcpu": "core-avx2"}
    given = {"kind": "llvm", "mtriple": "i686-linux-gnu"}
    assert resolve(given, cpu=cpu)["target"] == given
    assert resolve("llvm", remote=True, cpu=cpu)["target"] == {"kind": "llvm"}, "a board is what it is"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("nvidia/geforce-rtx-3070", "can't be tuned"),
        ("llvm mcpu", "write options like"),
        ("llvm -cl-opt=x", "cl-opt"),
        ({"kind": "llvm", "cl-opt": ["x"]}, "cl-opt"),
        ("llvm -mcpu=a;b", "mcpu"),
        ("cuda", "finds no such device"),
        ("vulkan", "vulkan"),
    ],
)
def test_it_refuses_other_targets_by_name(given: Any, said: str) -> None:
    with pytest.raises(Invalid, match="target") as refused:
        resolve(given)
    assert said in refused.value.fields["target"]


def test_a_board_may_have_what_this_machine_has_not() -> None:
    assert resolve({"kind": "cuda", "arch": "sm_53"}, remote=True)["device"] == "cuda:0"


@pytest.mark.parametrize(
    ("flags", "cpu"),
    [
        ({"sse2"}, {"kind": "llvm"}),
        (AVX2, {"kind": "llvm", "mcpu": "core-avx2"}),
        (
            AVX2 | {f"avx512{part}" for part in ("f", "bw", "cd", "dq", "vl")},
            {"kind": "llvm", "mcpu": "skylake-avx512"},
        ),
    ],
)
def test_this_machine_is_called_as_older_tvms_know_it(
    flags: set[str], cpu: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(legacy_tvm, "_flags", lambda: flags)
    assert resolve("this")["target"] == cpu


def test_this_machine_has_the_triple_that_its_tvm_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legacy_tvm, "_flags", lambda: AVX2)
    least = {"kind": "llvm", "mtriple": "x86_64-linux-gnu"}
    assert resolve("this", cpu=least)["target"] == {**least, "mcpu": "core-avx2"}
    with pytest.raises(Invalid, match="can't build for this machine's CPU: no LLVM"):
        resolve("this", cpu=None, targets={"llvm": "no LLVM"})


@pytest.mark.parametrize(
    ("options", "kind", "changes", "field"),
    [
        (AutoTvmOptions(), "builtin", {"xgboost": "xgboost is too new."}, "tuner"),
        (AutoSchedulerOptions(), "builtin", {"xgboost": "xgboost is too new."}, "cost_model"),
        (AutoSchedulerOptions(), "builtin", {"relay_testing": "no pytest"}, "network"),
        (AutoSchedulerOptions(), "onnx", {"onnx": "onnx is missing"}, "network"),
        (AutoSchedulerOptions(), "irmodule", {}, "network"),
    ],
)
def test_what_the_older_tvm_lacks_is_named(options: Any, kind: str, changes: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        legacy_tvm.check(msgspec.structs.replace(FOUND, **changes), ENGINES["autotvm"], options, kind)
    assert list(refused.value.fields) == [field]


def test_what_needs_no_xgboost_needs_none() -> None:
    without = msgspec.structs.replace(FOUND, xgboost="xgboost is missing.")
    for options in (AutoTvmOptions(tuner="ga"), AutoSchedulerOptions(cost_model="random")):
        legacy_tvm.check(without, ENGINES["autotvm"], options, "builtin")


def test_an_interpreter_without_the_engine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    partial = msgspec.structs.replace(FOUND, engines={"auto_scheduler": None, "autotvm": "No module named tvm.autotvm"})
    monkeypatch.setattr(interpreters, "ask", lambda _name: Asked(partial))
    assert legacy_tvm.probed("old", ENGINES["auto_scheduler"]) == partial
    with pytest.raises(Invalid, match="has no AutoTVM: No module named"):
        legacy_tvm.probed("old", ENGINES["autotvm"])
    monkeypatch.setattr(interpreters, "ask", lambda _name: Asked(error="/opt/x hangs."))
    with pytest.raises(Invalid, match="/opt/x hangs"):
        legacy_tvm.probed("old", ENGINES["autotvm"])
