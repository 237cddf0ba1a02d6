"""Occupancy, by NVIDIA's table, and compared with what NVIDIA's own `cuda_occupancy.h` computes."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.toolkit import include
from tuning.engines.assembly.occupancy import LIMITS, occupancy
from tuning.engines.wire.showing import Bound, Occupancy

KIB = 1 << 10
NVIDIAS_BOUNDS: dict[Bound, int] = {"warps": 1, "registers": 2, "shared memory": 4, "blocks": 8}
"""Bits of `limitingFactors`."""
PROGRAM = """
#include <limits.h>
#include <stdio.h>
#include <cuda_occupancy.h>

int main(void) {
  int major, minor, warps, shared, of_block, reserved, threads, registers, bytes;
  while (scanf("%d %d %d %d %d %d %d %d %d", &major, &minor, &warps, &shared, &of_block, &reserved, &threads, &registers, &bytes) == 9) {
    struct cudaOccDeviceProp device = {0};
    struct cudaOccFuncAttributes kernel = {0};
    struct cudaOccDeviceState state = {0};
    struct cudaOccResult result = {0};
    device.computeMajor = major; device.computeMinor = minor; device.warpSize = 32; device.numSms = 1;
    device.maxThreadsPerBlock = 1024; device.maxThreadsPerMultiprocessor = 32 * warps;
    device.regsPerBlock = device.regsPerMultiprocessor = 65536;
    device.sharedMemPerBlock = 49152; device.sharedMemPerBlockOptin = of_block << 10;
    device.sharedMemPerMultiprocessor = shared << 10; device.reservedSharedMemPerBlock = reserved << 10;
    kernel.maxThreadsPerBlock = INT_MAX; kernel.numRegs = registers;
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN; kernel.maxDynamicSharedSizeBytes = bytes;
    state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
    int status = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, threads, bytes);
    printf("%d %d %u\\n", status, result.activeBlocksPerMultiprocessor, result.limitingFactors);
  }
  return 0;
}
"""


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "shared", "expected"),
    [
        ("sm_80", 256, 32, 0, Occupancy(8, 64, 64, ["warps", "registers"])),
        ("sm_80", 256, 33, 0, Occupancy(6, 48, 64, ["registers"])),
        ("sm_80", 32, 16, 0, Occupancy(32, 32, 64, ["blocks"])),
        ("sm_80", 128, 16, 40 * KIB, Occupancy(4, 16, 64, ["shared memory"])),
        ("sm_86", 256, 32, 0, Occupancy(6, 48, 48, ["warps"])),
        ("sm_75", 64, 32, 0, Occupancy(16, 32, 32, ["warps", "blocks"])),
        ("sm_70", 128, 16, 96 * KIB, Occupancy(1, 4, 64, ["shared memory"])),
        ("sm_90a", 128, 16, 227 * KIB, Occupancy(1, 4, 64, ["shared memory"])),
        ("sm_120", 384, 32, 0, Occupancy(4, 48, 48, ["warps"])),
        ("sm_120", 33, 16, 0, Occupancy(24, 48, 48, ["warps", "blocks"])),
    ],
)
def test_it_is_what_the_limits_allow(arch: str, threads: int, registers: int, shared: int, expected: Occupancy) -> None:
    assert occupancy(arch, threads, registers, shared) == expected


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "bound"),
    [(1024, 65, 0, "registers"), (32, 16, 164 * KIB, "shared memory"), (32, 16, 163 * KIB + 1, "shared memory")],
)
def test_a_block_that_fits_nowhere_has_none(threads: int, registers: int, shared: int, bound: Bound) -> None:
    assert occupancy("sm_80", threads, registers, shared) == Occupancy(0, 0, 64, [bound])


@pytest.mark.parametrize("arch", ["sm_60", "sm_130", "compute_80", "gfx906"])
def test_unknown_limits_give_no_number(arch: str) -> None:
    assert occupancy(arch, 128, 32, 0) is None


@pytest.mark.rare
def test_nvidias_header_computes_the_same(tmp_path: Path) -> None:
    (tmp_path / "occupancy.c").write_text(PROGRAM)
    compiler = [shutil.which("gcc")] if shutil.which("gcc") else [sys.executable, "-m", "ziglang", "cc"]
    subprocess.run(
        [*compiler, "-I", include("cuda_occupancy.h"), "-o", "occupancy", "occupancy.c"], cwd=tmp_path, check=True
    )
    draw = random.Random(1)
    cases = [
        (
            name,
            draw.randint(1, 1024),
            draw.randint(1, 255),
            draw.choice([0, draw.randint(0, limits.shared_of_block * KIB)]),
        )
        for name, limits in LIMITS.items()
        for _ in range(1000)
    ]
    lines = [
        f"{name[:-1]} {name[-1]} {limits.warps} {limits.shared} {limits.shared_of_block} {limits.reserved} {threads} {registers} {shared}"
        for name, threads, registers, shared in cases
        for limits in [LIMITS[name]]
    ]
    said = subprocess.run([tmp_path / "occupancy"], input="\n".join(lines), capture_output=True, check=True, text=True)
    for case, line in zip(cases, said.stdout.splitlines(), strict=True):
        name, *needs = case
        found = occupancy(f"sm_{name}", *needs)
        assert found
        assert f"0 {found.blocks} {sum(NVIDIAS_BOUNDS[bound] for bound in found.bounds)}" == line, case
