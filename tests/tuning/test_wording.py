"""What runs and targets are called."""

from __future__ import annotations

from typing import Any

import pytest

from tuning.wording import numbered, target_label, target_name, target_names


@pytest.mark.parametrize(("keys", "words"), [([3], "run 3"), ([1, 2], "runs 1 and 2"), ([4, 1, 2], "runs 4, 1 and 2")])
def test_it_lists_runs(keys: list[int], words: str) -> None:
    assert numbered(keys) == words


@pytest.mark.parametrize(
    ("target", "label", "name"),
    [
        ("this", "this machine", "this"),
        ("nvidia/nvidia-a100", "nvidia/nvidia-a100", "nvidia/nvidia-a100"),
        ({"kind": "llvm", "mcpu": "znver5", "num-cores": 2}, "llvm · znver5 · 2 cores", "znver5"),
        ({"kind": "llvm", "num-cores": 1}, "llvm · 1 core", "llvm"),
        ({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "num-cores": 4}, "llvm · baseline x86_64 · 4 cores", "llvm"),
        ({"kind": "cuda", "arch": "sm_90", "tag": ""}, "cuda · sm_90", "sm_90"),
        ({"kind": "cuda", "arch": "sm_80", "tag": "nvidia/nvidia-a100"}, "nvidia/nvidia-a100", "nvidia/nvidia-a100"),
    ],
)
def test_it_names_targets(target: Any, label: str, name: str) -> None:
    assert (target_label(target), target_name(target)) == (label, name)


@pytest.mark.parametrize(
    ("targets", "names"),
    [
        ([{"kind": "cuda", "arch": "sm_80"}, {"kind": "llvm"}], ["sm_80", "llvm"]),
        ([{"kind": "llvm", "num-cores": 4}, {"kind": "llvm"}], ["llvm (num-cores 4)", "llvm (no num-cores)"]),
        (
            [{"kind": "llvm", "mattr": ["+avx2"]}, {"kind": "llvm", "mattr": ["+avx2", "+fma"]}, {"kind": "cuda"}],
            ['llvm (mattr ["+avx2"])', 'llvm (mattr ["+avx2", "+fma"])', "cuda"],
        ),
        (
            [{"kind": "llvm", "a": "x" * 50, "b": 1, "c": 1, "d": 1}, {"kind": "llvm"}],
            [f"llvm (a {'x' * 39}…, b 1, c 1)", "llvm (no a, no b, no c)"],
        ),
        (["this", {"kind": "llvm"}], ["this", "llvm"]),
    ],
)
def test_it_tells_targets_apart(targets: list[Any], names: list[str]) -> None:
    assert target_names(targets) == names
