"""What a confined process may do on a machine with a GPU: CUDA's driver gives up where it can't name its threads, which it does in /proc."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[4]
PROGRAM = """
import json, os, sys
from pathlib import Path
from tuning.engines import confinement
from tuning.engines.wire.question import Reach

confinement.GPUS, confinement.DRIVER = sys.argv[1], Path(sys.argv[2])
in_force = confinement.confine(Reach())


def writable(path):
    try:
        os.close(os.open(path, os.O_WRONLY))
    except OSError:
        return False
    return True


def readable(path):
    return os.access(path, os.R_OK) and bool(path.read_text())


child, parent = os.pipe()
if not os.fork():
    os.write(parent, b"yes" if writable("/proc/self/comm") else b"no")
    os._exit(0)
found = {
    "own": writable(f"/proc/self/task/{os.getpid()}/comm"),
    "child's": os.read(child, 3) == b"yes",
    "machine's": [path for path in sys.argv[3:] if writable(path)],
    "driver's": readable(confinement.DRIVER / "lib64" / "libcuda.so.1"),
}
print(json.dumps([in_force.files, found]))
"""
OF_MACHINE = (
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/vm/drop_caches",
    "/proc/sysrq-trigger",
    "/proc/irq/default_smp_affinity",
)


def confined(tmp_path: Path, gpus: str) -> dict[str, Any]:
    """What a confined process may do if files in /dev with such names are GPUs."""
    driver = tmp_path / "nvidia" / "lib64" / "libcuda.so.1"
    driver.parent.mkdir(parents=True)
    driver.write_text("a driver")
    (tmp_path / "own").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, gpus, str(tmp_path / "nvidia"), *OF_MACHINE],
        cwd=tmp_path / "own",
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path / "own")},
        stdout=subprocess.PIPE,
        check=True,
    )
    files, found = json.loads(done.stdout)
    if files is None:
        pytest.skip("this machine can't confine processes")
    return dict(found)


def test_it_and_its_children_name_their_threads_and_change_nothing_of_the_machine(tmp_path: Path) -> None:
    found = confined(tmp_path, "null")  # Every machine has this one.
    assert (found["own"], found["child's"], found["machine's"]) == (True, True, [])


def test_the_drivers_libraries_are_read_where_containers_have_them(tmp_path: Path) -> None:
    assert confined(tmp_path, "null")["driver's"]


def test_without_a_gpu_it_writes_nothing_in_proc(tmp_path: Path) -> None:
    found = confined(tmp_path, "no such device")
    assert (found["own"], found["child's"], found["machine's"]) == (False, False, [])
