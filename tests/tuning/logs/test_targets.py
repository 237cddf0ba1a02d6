"""Targets as text into JSON."""

from __future__ import annotations

from typing import Any

import pytest

from tuning.logs.targets import parsed


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("llvm", {"kind": "llvm"}),
        ("llvm -keys=cpu ", {"kind": "llvm", "keys": ["cpu"]}),
        (
            "llvm -keys=cpu -link-params=0 -mcpu=core-avx2",
            {"kind": "llvm", "keys": ["cpu"], "link-params": False, "mcpu": "core-avx2"},
        ),
        ("cuda -arch=sm_80 -max_num_threads=1024", {"kind": "cuda", "arch": "sm_80", "max_num_threads": 1024}),
        ("cuda -model=1080", {"kind": "cuda", "model": "1080"}),
        (
            "llvm -mattr=+neon,+fp16 -libs=mkl,cblas",
            {"kind": "llvm", "mattr": ["+neon", "+fp16"], "libs": ["mkl", "cblas"]},
        ),
        ("ext_dev -device=vta -keys=vta,cpu", {"kind": "ext_dev", "device": "vta", "keys": ["vta", "cpu"]}),
        (
            "llvm -device=arm_cpu -target aarch64-linux-gnu",
            {"kind": "llvm", "device": "arm_cpu", "target": "aarch64-linux-gnu"},
        ),
        ('cuda -host="llvm -mcpu=skylake"', {"kind": "cuda", "host": {"kind": "llvm", "mcpu": "skylake"}}),
        ("llvm --system-lib", {"kind": "llvm", "system-lib": True}),
        ('{"kind": "llvm", "num-cores": 4}', {"kind": "llvm", "num-cores": 4}),
    ],
)
def test_it_parses_tvms_text(text: str, target: dict[str, Any]) -> None:
    assert parsed(text) == target


def test_a_host_goes_inside() -> None:
    assert parsed("cuda", "llvm -keys=cpu")["host"] == {"kind": "llvm", "keys": ["cpu"]}
    assert "host" not in parsed("cuda", "")


@pytest.mark.parametrize("text", ["", "  ", "-keys=cpu", '{"keys": []}', '{"kind": 3}', "{", 'llvm "'])
def test_it_refuses_what_is_no_target(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parsed(text)
