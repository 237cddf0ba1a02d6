"""Where the threads run that TVM runs a network on."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

CHILD = """
import json, os
from tuning.engines.proof.threads import run_network_on
if {asked}:
    run_network_on(2)
else:
    os.environ["TVM_NUM_THREADS"] = "2"
import numpy as np
import tvm
source = '''
@T.prim_func(s_tir=True)
def each(ran: T.Buffer((8,), "int32")):
    for i in T.parallel(8):
        ran[i] = 1
'''
ran = tvm.runtime.tensor(np.zeros(8, "int32"))
tvm.compile(tvm.script.from_source(source), "llvm")(ran)
assert ran.numpy().all()
threads = [sorted(os.sched_getaffinity(int(thread))) for thread in os.listdir("/proc/self/task")]
print(json.dumps(threads))
"""


def places(*, asked: bool) -> list[list[int]]:
    """The cores that each thread of a process may run on, after it has run a function in parallel."""
    child = subprocess.run(
        [sys.executable, "-c", CHILD.format(asked=asked)],
        check=True,
        capture_output=True,
        text=True,
    )
    found: list[list[int]] = json.loads(child.stdout)
    return found


@pytest.mark.rare
@pytest.mark.tvm
def test_they_are_not_bound_to_cores_as_they_would_be_by_default() -> None:
    if len(everywhere := sorted(os.sched_getaffinity(0))) < 2:
        pytest.skip("with a single core there is nowhere else to run")
    assert all(cores == everywhere for cores in places(asked=True))
    assert any(len(cores) == 1 for cores in places(asked=False))
