"""What bounds a task, by figures that can be checked by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tuning.roofline import Roofline, compulsory_bytes

LINES = Roofline(1e11, [(2**16, 4e11), (2**20, 1e11), (2**26, 1e10)])


def argument(*shape: int, dtype: str = "float32") -> dict[str, Any]:
    return {"name": "x", "shape": list(shape), "dtype": dtype}


def test_a_task_is_bound_by_what_takes_longer() -> None:
    computing = LINES.bound(1e9, 2**20)
    assert computing.by == "compute"
    assert (computing.latency_s, computing.intensity) == pytest.approx((1e-2, 1e9 / 2**20))
    moving = LINES.bound(1e3, 2**26)
    assert moving.by == "memory"
    assert moving.latency_s == pytest.approx(2**26 / 1e10)
    copying = LINES.bound(0, 2**20)
    assert copying.by == "memory"
    assert (copying.latency_s, copying.intensity) == pytest.approx((2**20 / 1e11, 0))


def test_small_working_sets_have_the_bandwidth_of_a_cache() -> None:
    assert [LINES.bandwidth(2**power) for power in (4, 16, 20, 26, 40)] == pytest.approx([4e11, 4e11, 1e11, 1e10, 1e10])
    assert LINES.bandwidth(2**18) == pytest.approx(2e11), "halfway on the chart"
    assert LINES.bandwidth(2**23) == pytest.approx((1e11 * 1e10) ** 0.5)


def test_a_disturbed_small_one_lowers_no_roof() -> None:
    lines = Roofline(1e11, [(2**16, 1e10), (2**20, 1e11), (2**26, 2e10)])
    assert [lines.bandwidth(2**power) for power in (10, 16, 18, 20, 26)] == pytest.approx([1e11] * 4 + [2e10])


def test_a_single_working_set_is_enough() -> None:
    lines = Roofline(1e9, [(1024, 5e9)])
    assert [lines.bandwidth(size) for size in (1, 1024, 10**9)] == [5e9] * 3


def test_bytes_are_those_of_inputs_and_outputs() -> None:
    assert compulsory_bytes([argument(2, 3), argument(3, 4), argument(2, 4)]) == 4 * (6 + 12 + 8)
    assert compulsory_bytes([argument(9, dtype="bool"), argument(9)]) == 9 + 36
    assert compulsory_bytes([argument()]) == 4, "a scalar"


def test_of_an_array_that_is_indexed_no_more_is_read_than_goes_out() -> None:
    """A few rows of a large table would be far above a roof of all its bytes."""
    embedding = [argument(7, dtype="int64"), argument(30_000, 8), argument(7, 8)]
    assert compulsory_bytes(embedding) == 8 * 7 + 4 * (56 + 56)
    added = [argument(7, dtype="int32"), argument(30_000, 8), argument(8), argument(7, 8)]
    assert compulsory_bytes(added) == 4 * (7 + 56 + 8 + 56)
    largest = [argument(7, 8), argument(7, dtype="int64")]
    assert compulsory_bytes(largest) == 4 * 56 + 8 * 7, "indices that go out"


@pytest.mark.parametrize(
    "args",
    [
        [],
        [argument(8, dtype="float16"), argument(8)],
        [argument(8, dtype="int8"), argument(8, dtype="int32")],
        [argument(8, dtype="int8"), argument(8)],
        [argument(0, 8), argument(8)],
    ],
    ids=["none", "float16", "integers", "quantized", "empty"],
)
def test_only_what_computes_in_float32_has_a_roof(args: list[dict[str, Any]]) -> None:
    assert compulsory_bytes(args) is None
