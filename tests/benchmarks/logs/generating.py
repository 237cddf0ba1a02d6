"""Large logs, of lines as long and as deep as real ones."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

DISTINCT = 2000
"""Lines that are repeated until the file is large enough."""
BATCH = 64
"""Consecutive lines of the same task."""
SIZES = (64, 128, 256, 512)
Line = Callable[[random.Random, int], Any]


def _auto_scheduler(steps: int) -> Line:
    def line(chance: random.Random, batch: int) -> Any:
        size = SIZES[batch % len(SIZES)]
        key = json.dumps([f"{size:032x}", [1, size, 112, 112], [96, size, 1, 1], [1, 96, 112, 112]])
        task = [
            key,
            "cuda -keys=cuda,gpu -arch=sm_80 -max_num_threads=1024",
            [-1, 16, 64, 49152, 2147483647, 1024, 8, 32],
            "",
            0,
            [],
        ]
        state = [["SP", 3, 5 * step, 112, [chance.randint(1, 8) for _ in range(4)], 1] for step in range(steps)]
        return {"i": [task, [[], state]], "r": [*_result(chance, 1e10), 1_700_000_000], "v": "v0.6"}  # fmt: skip

    return line


def _autotvm(chance: random.Random, batch: int) -> Any:
    size = SIZES[batch % len(SIZES)]
    args = [
        ["TENSOR", [1, size, 14, 14], "float32"],
        ["TENSOR", [size, size, 3, 3], "float32"],
        [1, 1],
        [1, 1, 1, 1],
        [1, 1],
        "float32",
    ]
    entity = [
        [f"tile_{axis}", "sp", [-1, *(chance.choice([1, 2, 4, 8]) for _ in range(3))]]
        for axis in ("f", "y", "x", "rc", "ry", "rx")
    ]
    return {
        "input": ["cuda -keys=cuda,gpu -model=v100", "conv2d_nchw.cuda", args, {}],
        "config": {"index": chance.randrange(10**8), "code_hash": None, "entity": entity},
        "result": [*_result(chance, 1e9), 1_700_000_000.25],
        "version": 0.2,
        "tvm_version": "0.9.0",
    }  # fmt: skip


def _meta_schedule(chance: random.Random, batch: int) -> Any:
    insts: list[Any] = [["GetBlock", [], ["conv2d_nchw", "main"], ["b0"]]]
    for step in range(40):
        insts.append(["SamplePerfectTile", [f"l{step}"], [5, 64], [f"v{100 * step + part}" for part in range(5)]])
        insts.append(
            [
                "Split",
                [f"l{step}", *(f"v{100 * step + part}" for part in range(5))],
                [1],
                [f"l{100 * step + part + 100}" for part in range(5)],
            ]
        )
    decisions = [[2 * step + 1, [chance.choice([1, 2, 4, 8]) for _ in range(5)]] for step in range(40)]
    target = {
        "kind": "cuda",
        "keys": ["cuda", "gpu"],
        "arch": "sm_80",
        "max_num_threads": 1024,
        "host": {"kind": "llvm", "keys": ["cpu"]},
    }
    costs = [1e10] if chance.random() < 0.2 else [chance.uniform(1e-5, 1e-3) for _ in range(3)]
    return [batch % 20, [[insts, decisions], costs, target, [["TENSOR", "float32", [1, 64, 56, 56]]]]]  # fmt: skip


def _result(chance: random.Random, failed: float) -> list[Any]:
    if chance.random() < 0.05:
        return [[failed], chance.choice([2, 4, 6]), 15]
    return [[chance.uniform(1e-5, 1e-3) for _ in range(3)], 0, chance.uniform(0.1, 5)]


LOGS: dict[str, tuple[Line, int]] = {
    "auto_scheduler, long lines": (_auto_scheduler(22), 105_000),
    "auto_scheduler, a million lines": (_auto_scheduler(6), 1_000_000),
    "AutoTVM": (_autotvm, 200_000),
    "MetaSchedule": (_meta_schedule, 21_000),
}
"""How a line is made, and how many there are in the large log."""


def lines(name: str, count: int) -> Iterator[bytes]:
    """The same for the same name, each with its newline."""
    make, _ = LOGS[name]
    chance = random.Random(name)
    distinct = [json.dumps(make(chance, at // BATCH)).encode() + b"\n" for at in range(min(count, DISTINCT))]
    return islice(cycle(distinct), count)


def generate(name: str, count: int, path: Path) -> None:
    with path.open("wb") as file:
        file.writelines(lines(name, count))
