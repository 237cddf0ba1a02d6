"""What errors mean."""

from __future__ import annotations

import errno

import pytest

from tuning.engines.wire.errors import is_out_of_memory


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (RuntimeError("TVMError: std::bad_alloc"), True),
        (OSError(errno.ENOMEM, "Cannot allocate memory", "tvm/ir"), True),
        (OSError(errno.ENOSPC, "No space left on device"), False),
        (ValueError("a shape doesn't fit"), False),
    ],
    ids=["Python's", "TVM's", "the system's", "another of the system", "another"],
)
def test_it_tells_whether_memory_is_short(error: Exception, *, expected: bool) -> None:
    assert is_out_of_memory(error) is expected
