"""What errors mean."""

from __future__ import annotations

import errno

import pytest

from tuning.engines.wire.errors import is_out_of_memory, last_line


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Traceback\n  in main\nValueError: no such layer\n\n", "ValueError: no such layer"),
        ("NVRTC compilation failed:\nnvrtc: error: invalid value\n \0", "nvrtc: error: invalid value"),
        (" \n\0", ""),
    ],
    ids=["Python's", "NVRTC's, which ends with a zero", "blank"],
)
def test_the_last_line_is_the_last_that_says_something(text: str, expected: str) -> None:
    assert last_line(text) == expected
