"""A stand-in for a VTA build, for tests of the path around it: it has VTA's names and nothing of VTA.

What it builds is plain code of this machine's CPU, so its times and its share of failures say nothing of VTA. Environment variables
choose what it pretends: VTA_STAND_IN_TARGET, VTA_STAND_IN_FAULT (names with commas between: see `top` and `testing.simulator`),
VTA_STAND_IN_LOG (a file that notes calls).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import tvm

TARGET = os.environ.get("VTA_STAND_IN_TARGET", "sim")
FAULTS = os.environ.get("VTA_STAND_IN_FAULT", "").split(",")


class Env:
    """What `vta.get_env()` is asked for."""

    TARGET = TARGET
    MODEL = f"{TARGET}_stand_in"
    BATCH = 1
    BLOCK_IN = BLOCK_OUT = 16
    WGT_WIDTH = 8
    target_host = "llvm"


def get_env() -> Env:
    return Env()


def note(text: str) -> None:
    """Append a line to the log of calls."""
    if path := os.environ.get("VTA_STAND_IN_LOG"):
        with Path(path).open("a") as log:
            log.write(text + "\n")


def noted(text: str) -> int:
    """Note it, and return how often it was noted so far."""
    note(text)
    return Path(os.environ["VTA_STAND_IN_LOG"]).read_text().splitlines().count(text)


def build(schedule: Any, args: Any, target_host: Any = None, **_: Any) -> Any:
    target = tvm.target.Target(f"ext_dev -device=vta -keys=vta,cpu -model={Env.MODEL}", host=target_host or "llvm")
    return tvm.build(schedule, args, target=target, name="default_function")


def build_config(**how: Any) -> Any:
    return tvm.transform.PassContext(**how)


def reconfig_runtime(remote: Any) -> None:
    assert remote.get_function("runtime.GetFFIString") or remote
    note("reconfig_runtime")


def program_fpga(remote: Any, bitstream: str | None = None) -> None:
    """As VTA does, send the bitstream to the board."""
    note(f"program_fpga {bitstream}")
    if bitstream:
        remote.upload(bitstream)
