from __future__ import annotations

import json
import platform
from typing import Any

import msgspec
import pytest

from tuning.engines.oneshot import serving
from tuning.engines.oneshot.inspecting import inspect
from tuning.engines.oneshot.listing import tags
from tuning.engines.oneshot.resolving import resolve
from tuning.engines.targets import resolving
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.inspecting import Question
from tuning.engines.wire.protocol import NetworkSpec
from tuning.engines.wire.target_fields import checked
from tuning.engines.wire.targets import Resolve

pytestmark = [pytest.mark.tvm, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.


on_x86 = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the CPU isn't an x86")


def answer(target: Any, *, remote: bool = False) -> dict[str, Any]:
    try:
        found = resolve(Resolve(target=target, remote=remote, memory_mb=1, cpu_s=1))
    except Refused as error:
        return {"error": str(error)}
    given: dict[str, Any] = msgspec.to_builtins(found)
    return given


def test_this_machine_is_named_with_its_cpu_and_cores() -> None:
    from tvm.target import codegen

    given = answer("this")
    assert given["target"]["kind"] == "llvm"
    assert given["target"]["mcpu"] == str(codegen.llvm_get_system_cpu())
    assert given["target"]["num-cores"] == resolving.cores() >= 1
    assert given["device"] == "cpu"


def test_a_resolved_target_resolves_to_itself() -> None:
    once = answer("this")
    assert answer(once["target"]) == once
    assert answer(json.dumps(once["target"])) == once


def test_a_cpu_target_gets_this_machines_cores_unless_it_says_how_many() -> None:
    """Without the number of cores, MetaSchedule fails later, when it makes design spaces."""
    assert answer("llvm")["target"]["num-cores"] == resolving.cores()
    assert answer({"kind": "llvm", "num-cores": 3})["target"]["num-cores"] == 3


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("", "The target is empty"),
        ("nosuch", "nosuch"),
        ("nosuch/tag", "doesn't know a target tag nosuch/tag"),
        ("llvm -mcpu=znver4", "options are given as JSON"),
        ('{"kind":', "isn't valid JSON"),
        ({}, 'has no "kind"'),
        ({"kind": "nosuch"}, "kind nosuch can't be tuned yet"),
        ({"kind": "llvm", "speed": 1}, "can't have 'speed'"),
        # As runs of earlier versions may have stored it: engines and compilations resolve what they are given.
        ({"kind": "llvm", "cl-opt": ["--no-such-option"]}, "can't have 'cl-opt'"),
        ({"kind": "llvm", "mcpu": "z80"}, 'know a CPU "z80"'),
        ({"kind": "llvm", "mcpu": ""}, "know a CPU"),
        ({"kind": "llvm", "mattr": ["+warp"]}, "know the CPU feature warp"),
        ({"kind": "llvm", "num-cores": 0}, "at least 1"),
        ({"kind": "llvm", "num-cores": "two"}, "num-cores"),
        ({"kind": "vulkan"}, "can't be tuned yet"),
    ],
)
def test_it_refuses_invalid_targets(asked: Any, words: str) -> None:
    assert words in answer(asked)["error"]


def test_it_refuses_targets_of_other_architectures() -> None:
    from tvm.target import codegen

    here = str(codegen.llvm_get_system_triple())
    other = "x86_64-linux-gnu" if here.startswith("aarch64") else "aarch64-linux-gnu"
    assert "can't run on this machine" in answer({"kind": "llvm", "mtriple": other})["error"]
    assert "can't run on this machine" in answer({"kind": "llvm", "mtriple": "riscv64-linux-gnu"})["error"]


def test_it_refuses_instructions_that_the_cpu_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would end every trial with SIGILL."""
    oldest, newest = ("x86-64", "sapphirerapids") if _is_x86() else ("generic", "neoverse-v2")
    monkeypatch.setattr(resolving, "_this_machine", lambda: {"kind": "llvm", "mcpu": oldest, "num-cores": 1})
    assert "lacks" in answer({"kind": "llvm", "mcpu": newest})["error"]
    assert "error" not in answer({"kind": "llvm", "mcpu": oldest})


def remote(target: Any) -> dict[str, Any]:
    return answer(target, remote=True)


def test_this_machine_need_only_build_for_a_remote_device() -> None:
    board = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72", "num-cores": 4}
    assert "can't run on this machine" in answer(board)["error"] or not _is_x86()
    assert remote(board)["target"]["mcpu"] == "cortex-a72"
    assert remote("raspberry-pi/4b-aarch64")["target"]["num-cores"] == 4
    assert 'know a CPU "cortex-z80"' in remote(board | {"mcpu": "cortex-z80"})["error"]
    assert "how many cores" in remote({"kind": "llvm", "mtriple": "aarch64-linux-gnu"})["error"]
    assert remote("nvidia/nvidia-a100")["target"]["arch"] == "sm_80"


def _is_x86() -> bool:
    from tvm.target import codegen

    return str(codegen.llvm_get_system_triple()).startswith("x86_64")


def test_it_distinguishes_tuning_hints_from_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    if not _is_x86():
        pytest.skip("names of x86 CPUs")
    monkeypatch.setattr(resolving, "_this_machine", lambda: {"kind": "llvm", "mcpu": "znver4", "num-cores": 1})
    assert "error" not in answer({"kind": "llvm", "mcpu": "skylake-avx512"})
    assert "amx" in answer({"kind": "llvm", "mcpu": "sapphirerapids"})["error"]


def test_it_refuses_cuda_without_a_gpu() -> None:
    import tvm

    given = answer("nvidia/nvidia-a100")
    if tvm.cuda(0).exist:
        assert given["device"] == "cuda:0"
    else:
        assert "no usable CUDA GPU" in given["error"]


@on_x86
def test_it_says_which_features_a_baseline_target_doesnt_use() -> None:
    remarks = answer("llvm")
    assert "doesn't use features of this machine's CPU" in remarks["warning"]
    assert remarks["float16"] is False
    assert answer("this")["warning"] is None
    assert remote({"kind": "llvm", "num-cores": 4})["warning"] is None, (
        "what another machine's CPU has isn't known here"
    )


def test_it_says_if_the_number_of_cores_differs() -> None:
    host = answer("this")["target"]
    assert f"for {host['num-cores'] + 1} of this" in answer(host | {"num-cores": host["num-cores"] + 1})["warning"]


@pytest.mark.parametrize("tag", ["raspberry-pi/4b-aarch64", "nvidia/nvidia-a100", "nvidia/jetson-agx-xavier"])
def test_what_it_makes_of_tags_may_be_asked_for_again(tag: str) -> None:
    once = remote(tag)
    assert remote(once["target"]) == once


def test_no_tag_has_fields_that_are_refused() -> None:
    from tvm.target import Target

    for tag in tags.tags():
        target = resolving._plain(Target(tag).export())
        assert checked(target) == target


def test_a_stored_target_is_checked_before_a_model_is_read_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving.Pipe, "__init__", lambda _: None)
    monkeypatch.setattr(serving.Pipe, "step", lambda *_: None)
    question = Question(
        network=NetworkSpec("mlp", {}), target={"kind": "llvm", "cl-opt": ["-x"]}, memory_mb=4096, cpu_s=60
    )
    with pytest.raises(Refused, match="can't have 'cl-opt'"):
        inspect(question, serving.Pipe())


def test_it_lists_the_tags_that_can_be_tuned_for() -> None:
    known = tags.tags()
    assert known == sorted(known)
    assert {"nvidia/nvidia-a100", "arm/rasp4b"} < set(known)
    assert not any("vulkan" in tag for tag in known)


def test_tags_of_cuda_targets_contain_nvidia() -> None:
    """`tuning.host.targets` tells from the text whether a question needs CUDA's address space."""
    from tvm.target import Target

    assert [name for name in tags.tags() if str(Target(name).kind.name) == "cuda" and "nvidia" not in name] == []
