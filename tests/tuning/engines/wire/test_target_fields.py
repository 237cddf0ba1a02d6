"""A target is rebuilt from the fields that are known: what else it says never reaches TVM."""

from __future__ import annotations

from typing import Any

import pytest

from tuning.engines.wire.target_fields import TargetRefused, checked


@pytest.mark.parametrize(
    "target",
    [
        {"kind": "llvm", "mcpu": "znver4", "num-cores": 8},
        {"kind": "llvm", "tag": "", "keys": ["x86", "cpu"], "mtriple": "x86_64-conda-linux-gnu", "opt-level": 3},
        {
            "kind": "llvm",
            "mattr": ["+neon", "-sve", "+v8.2a"],
            "mabi": "lp64d",
            "mfloat-abi": "hard",
            "model": "bcm2711",
        },
        {"kind": "llvm", "fast-math": True, "vector-width": 512, "device": "arm_cpu"},
        {"kind": "cuda", "arch": "sm_90a", "max_threads_per_block": 1024, "host": {"kind": "llvm", "mcpu": "carmel"}},
        {"kind": "cuda", "tag": "nvidia/nvidia-a100", "host": "llvm"},
        "this",
        "nvidia/nvidia-a100",
    ],
)
def test_it_keeps_what_describes_a_device(target: Any) -> None:
    assert checked(target) == target


def test_json_text_becomes_fields() -> None:
    assert checked(' {"num-cores": 2, "kind": "llvm"}\n') == {"kind": "llvm", "num-cores": 2}


def test_of_a_field_given_twice_it_passes_on_the_one_that_it_checked() -> None:
    assert checked('{"kind": "llvm", "mcpu": "a b", "mcpu": "c"}') == {"kind": "llvm", "mcpu": "c"}


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ({"kind": "llvm", "cl-opt": ["--x86-asm-syntax:str=intel"]}, "can't have 'cl-opt'"),
        ({"kind": "llvm", "CL-OPT": ["-x"]}, "can't have 'CL-OPT'"),
        ({"kind": "llvm", "cl_opt": ["-x"]}, "can't have 'cl_opt'"),
        ({"kind": "llvm", "num_cores": 2}, "can't have 'num_cores'"),
        ({"kind": "llvm", "cl-opt\u200b": ["-x"]}, "can't have 'cl-opt"),
        ({"kind": "llvm", "libs": ["/tmp/mine.so"]}, "can't have 'libs'"),
        ({"kind": "llvm", "jit": "mcjit"}, "can't have 'jit'"),
        ({"kind": "llvm", "feature.x": 1}, "can't have 'feature.x'"),
        ({"kind": "llvm", "from_device": 1}, "can't have 'from_device'"),
        ({"kind": "cuda", "host": {"kind": "llvm", "cl-opt": ["-x"]}}, "can't have 'host.cl-opt'"),
        ({"kind": "cuda", "host": {"kind": "cuda"}}, "host.kind"),
        ({"kind": "cuda", "host": {"kind": "llvm", "host": {"kind": "llvm"}}}, "can't have 'host.host'"),
        ({"kind": "cuda", "host": "llvm -cl-opt=-x"}, "host is wrong"),
        ({"kind": "cuda", "host": ["llvm"]}, "host is wrong"),
        ({"kind": "LLVM"}, "kind LLVM can't be tuned"),
        ({"kind": "llvm -cl-opt=-x"}, "can't be tuned"),
        ({"kind": "ｌｌｖｍ"}, "can't be tuned"),
        ({"kind": ["llvm"]}, "can't be tuned"),
        ({"kind": "composite", "devices": []}, "can't be tuned"),
        ({"tag": "nvidia/nvidia-a100", "cl-opt": ["-x"]}, 'has no "kind"'),
        ({"kind": "llvm", "mcpu": "znver4 -cl-opt=-x"}, "mcpu is wrong"),
        ({"kind": "llvm", "mcpu": "znver4\n"}, "mcpu is wrong"),
        ({"kind": "llvm", "mcpu": "z" * 101}, "mcpu is wrong"),
        ({"kind": "llvm", "mcpu": None}, "mcpu is wrong"),
        ({"kind": "llvm", "mattr": "+neon"}, "mattr is wrong"),
        ({"kind": "llvm", "mattr": ["neon"]}, r"mattr\[0\] is wrong"),
        ({"kind": "llvm", "mattr": ["+neon,+sve"]}, r"mattr\[0\] is wrong"),
        ({"kind": "llvm", "mattr": ["+a"] * 257}, "mattr is wrong"),
        ({"kind": "llvm", "num-cores": True}, "num-cores is wrong"),
        ({"kind": "llvm", "num-cores": -1}, "num-cores is wrong"),
        ({"kind": "llvm", "num-cores": 2**63}, "num-cores is wrong"),
        ('{"kind": "llvm", "num-cores": Infinity}', "num-cores is wrong"),
        ('{"kind": "cuda", "kind": "llvm", "cl-opt": ["-x"]}', "can't have 'cl-opt'"),
        ('{"kind": "llvm"} {"cl-opt": ["-x"]}', "isn't valid JSON"),
        ('{"a": ' * 5000 + "1" + "}" * 5000, "nested too deeply"),
        ("llvm\t-cl-opt=-x", "options are given as JSON"),
        ("llvm\u00a0-cl-opt=-x", "options are given as JSON"),
        ("-cl-opt=-x", "options are given as JSON"),
        ('["llvm"]', "options are given as JSON"),
        ("", "is empty"),
    ],
)
def test_it_refuses_everything_else_and_names_the_field(target: Any, words: str) -> None:
    with pytest.raises(TargetRefused, match=words):
        checked(target)
