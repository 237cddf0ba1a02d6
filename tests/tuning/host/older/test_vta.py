"""Targets for VTA, and what else a launch asks of an interpreter's VTA build. What the builds answer is made up."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.older_tvm import FOUND
from tuning.engines.wire.engines import ENGINES
from tuning.engines.wire.legacy import Probed, Vta
from tuning.engines.wire.options.legacy import AutoSchedulerOptions, AutoTvmOptions
from tuning.host.older import legacy_tvm, vta
from tuning.validation import Invalid

MODEL = "sim_1x16_i8w8a32_15_15_18_17"
SIMULATOR = Vta("sim", MODEL)
BOARD = Vta(
    "pynq",
    MODEL.replace("sim", "pynq"),
    host="llvm -mtriple=armv7-none-linux-gnueabihf",
    bitstream="own.bit",
    bitstreams=["other.bit", "own.bit"],
)


def having(build: Vta | None, **changes: Any) -> Probed:
    return msgspec.structs.replace(FOUND, vta=build, **changes)


def resolve(given: Any, found: Probed, *, remote: bool = False) -> dict[str, Any]:
    return dict(legacy_tvm.resolve(given, found, remote=remote))


@pytest.mark.parametrize(
    "given",
    [
        "ext_dev -device=vta",
        {"kind": "ext_dev", "device": "vta"},
        f"ext_dev -keys=vta,cpu -device=vta -model={MODEL}",
    ],
)
def test_the_build_completes_the_target(given: Any) -> None:
    resolved = resolve(given, having(SIMULATOR, cpu={"kind": "llvm", "mtriple": "x86_64-linux-gnu"}))
    assert resolved["target"] == {
        "kind": "ext_dev",
        "keys": ["vta", "cpu"],
        "device": "vta",
        "model": MODEL,
        "host": {"kind": "llvm", "mtriple": "x86_64-linux-gnu"},
    }
    assert (resolved["device"], resolved["label"]) == ("cpu", f"VTA · {MODEL}")


def test_a_boards_code_is_built_for_its_own_cpu() -> None:
    resolved = resolve("ext_dev -device=vta", having(BOARD), remote=True)
    assert resolved["target"]["host"] == {"kind": "llvm", "mtriple": "armv7-none-linux-gnueabihf"}
    given = {"kind": "ext_dev", "device": "vta", "host": {"kind": "llvm", "mcpu": "cortex-a9"}}
    assert resolve(given, having(BOARD), remote=True)["target"]["host"] == given["host"]


@pytest.mark.parametrize(
    ("given", "build", "remote", "field", "said"),
    [
        ("ext_dev -device=vta", None, False, "target", "The interpreter has no VTA: its TVM 0.9.dev0 finds no VTA build"),
        ("ext_dev", SIMULATOR, False, "target", "device"),
        ("ext_dev -device=npu", SIMULATOR, False, "target", "device"),
        ("ext_dev -device=vta -model=pynq_1x16", SIMULATOR, False, "target", f"has the model {MODEL}, not pynq_1x16"),
        ("ext_dev -device=vta", SIMULATOR, True, "device", "simulates VTA (sim) on this machine"),
        ("ext_dev -device=vta", BOARD, False, "device", "is for a board (pynq): choose a tracker's device"),
        (
            "ext_dev -device=vta",
            msgspec.structs.replace(SIMULATOR, trouble="OSError: no libvta_fsim.so"),
            False,
            "target",
            "VTA's simulator doesn't work: OSError: no libvta_fsim.so",
        ),
    ],
)  # fmt: skip
def test_what_cant_be_tuned_is_refused_by_field(given: str, build: Vta, remote: bool, field: str, said: str) -> None:
    with pytest.raises(Invalid) as refused:
        resolve(given, having(build, no_vta="vta: ModuleNotFoundError: No module named 'vta'"), remote=remote)
    assert list(refused.value.fields) == [field]
    assert said in refused.value.fields[field]


def check(build: Vta, options: Any, engine: str = "autotvm", **network: Any) -> dict[str, str]:
    """What is refused."""
    try:
        vta.check({"kind": "ext_dev"}, having(build), ENGINES[engine], options, network)
    except Invalid as refused:
        return refused.fields
    return {}


@pytest.mark.parametrize(
    ("build", "options", "network", "field"),
    [
        (SIMULATOR, {"ops": ["dense"]}, {}, "ops"),
        (SIMULATOR, {}, {"layout": "NHWC"}, "network_options.layout"),
        (SIMULATOR, {}, {"dtype": "float16"}, "network_options.dtype"),
        (SIMULATOR, {"vta_bitstream": "own.bit"}, {}, "vta_bitstream"),
        (BOARD, {"vta_bitstream": "unknown.bit"}, {}, "vta_bitstream"),
        (BOARD, {"vta_bitstream": "own.bit", "vta_program": False}, {}, "vta_bitstream"),
        (msgspec.structs.replace(BOARD, bitstreams=[]), {}, {}, "vta_program"),
    ],
)
def test_what_vta_cant_do_is_named(build: Vta, options: dict[str, Any], network: dict[str, Any], field: str) -> None:
    assert list(check(build, AutoTvmOptions(**options), **network)) == [field]


def test_what_vta_can_do_isnt_refused() -> None:
    for options in ({}, {"ops": ["conv2d", "dense"]}, {"vta_program": False}, {"vta_bitstream": "other.bit"}):
        assert check(BOARD, AutoTvmOptions(**options), layout="NCHW") == {}
    assert check(msgspec.structs.replace(BOARD, bitstreams=[]), AutoTvmOptions(vta_program=False)) == {}


def test_only_autotvm_tunes_for_vta() -> None:
    refused = check(SIMULATOR, AutoSchedulerOptions(), engine="auto_scheduler")
    assert refused == {"engine": "auto_scheduler has no schedules for VTA. Choose AutoTVM."}
    vta.check({"kind": "llvm"}, FOUND, ENGINES["auto_scheduler"], AutoSchedulerOptions(), {})
