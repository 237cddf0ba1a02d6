"""What is read of ptxas's report."""

from __future__ import annotations

import pytest

from tuning.engines.assembly import Needs, needs

TWO = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'main_kernel_1' for 'sm_80'
ptxas info    : Function properties for main_kernel_1
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 122 registers, used 1 barriers, 376 bytes cmem[0]
ptxas info    : Compile time = 119.976 ms
ptxas info    : Compiling entry function 'main_kernel' for 'sm_80'
ptxas info    : Function properties for main_kernel
    416 bytes stack frame, 380 bytes spill stores, 404 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 416 bytes cumulative stack size, 8192 bytes smem, 376 bytes cmem[0]
"""


def test_it_reads_each_kernel() -> None:
    assert needs(TWO) == {
        "main_kernel_1": Needs(122, shared=0, stack=0, spill_stores=0, spill_loads=0),
        "main_kernel": Needs(32, shared=8192, stack=416, spill_stores=380, spill_loads=404),
    }


@pytest.mark.parametrize(
    "left_out", ["Used 32 registers", "380 bytes spill stores", "Compiling entry function 'main_kernel'"]
)
def test_a_kernel_that_isnt_told_whole_is_left_out(left_out: str) -> None:
    assert "main_kernel" not in needs(TWO.replace(left_out, "…"))
