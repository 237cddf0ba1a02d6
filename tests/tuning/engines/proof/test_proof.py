"""When two outputs agree, and in which order the sides are measured."""

from __future__ import annotations

import numpy as np
import pytest

from tuning.engines.proof import rounds as proof_rounds
from tuning.engines.proof.outputs import compared
from tuning.engines.proof.rounds import LEAST_OF_FIRST, LEAST_ROUNDS, MOST_ROUNDS, Measure, benchmarked
from tuning.engines.wire.compiling import Side
from tuning.noise import FEWEST

ONES = np.ones((2, 3), "float32")


def test_rounding_is_distinguished_from_wrong_numbers() -> None:
    verdict = compared([ONES * 4 + 1e-5], [ONES * 4])
    assert verdict.right
    assert verdict.absolute == pytest.approx(1e-5, rel=0.1)
    assert verdict.relative == pytest.approx(2.5e-6, rel=0.1)
    assert (verdict.dtype, verdict.tolerance) == ("float32", 1e-4)
    wrong = ONES.copy()
    wrong[1, 2] = 1.001
    assert not compared([wrong], [ONES])[0]


@pytest.mark.parametrize(
    ("dtype", "alike"), [("float64", False), ("float32", True), ("float16", True), ("int32", False)]
)
def test_each_type_has_its_own_tolerance(dtype: str, *, alike: bool) -> None:
    large = (ONES * 100_000).astype(dtype) if dtype != "float16" else ONES.astype(dtype)
    off = large + np.asarray(1, dtype) if dtype != "float16" else large * np.asarray(1.01, dtype)
    assert compared([off], [large])[0] is alike
    assert compared([large], [large])[0]


def test_float32_that_was_computed_in_bfloat16_is_allowed_its_rounding() -> None:
    off = ONES * 1.01
    assert not compared([off], [ONES]).right
    verdict = compared([off], [ONES], "bfloat16")
    assert (verdict.right, verdict.dtype, verdict.tolerance) == (True, "bfloat16", 1e-1)
    assert not compared([ONES * 1.2], [ONES], "bfloat16").right
    assert not compared([np.array([3])], [np.array([4])], "bfloat16").right, "integers are counted, not rounded"


@pytest.mark.parametrize(
    ("dtype", "step", "off", "right"),
    [
        ("float32", None, 1.5 / 127, True),
        ("float32", None, 2.5 / 127, False),
        ("float32", 0.02, 0.04, True),
        ("float32", 0.02, 0.05, False),
    ],
)
def test_integers_may_be_two_steps_off_the_floats(dtype: str, step: float | None, off: float, *, right: bool) -> None:
    """Of the largest value, which is 1, if it isn't known how large a step is."""
    verdict = compared([(ONES - off).astype(dtype)], [ONES.astype(dtype)], steps=[step])
    assert verdict.right is right
    assert verdict.tolerance == pytest.approx(2 * step if step else 2 / 127)


@pytest.mark.parametrize(("dtype", "off", "right"), [("uint8", 2, True), ("uint8", 3, False), ("int64", 1, False)])
def test_quantized_outputs_are_counted_in_steps_but_indices_must_be_equal(dtype: str, off: int, *, right: bool) -> None:
    other = (ONES * 10).astype(dtype)
    assert compared([other + np.asarray(off, dtype)], [other], steps=[1.0 if dtype == "uint8" else None])[0] is right


def test_the_worst_of_several_outputs_decides() -> None:
    verdict = compared([ONES, np.array([3])], [ONES, np.array([4])])
    assert (verdict.right, verdict.absolute, verdict.dtype) == (False, 1.0, "int64")


@pytest.mark.parametrize(("tuned", "untuned"), [(np.nan, 1.0), (1.0, np.nan), (np.inf, -np.inf), (np.inf, 1.0)])
def test_a_number_where_the_other_output_isnt_finite_is_wrong(tuned: float, untuned: float) -> None:
    assert compared([ONES * tuned], [ONES * untuned])[:3] == (False, None, None)


def test_outputs_agree_where_neither_is_a_number() -> None:
    both = np.array([np.nan, np.inf, 1.0], "float32")
    assert compared([both], [both.copy()])[:2] == (True, 0.0)


def test_outputs_of_zeros_are_compared_absolutely() -> None:
    assert compared([ONES * 0], [ONES * 0])[:3] == (True, 0.0, 0.0)
    assert not compared([ONES], [ONES * 0])[0]


def test_another_shape_is_wrong() -> None:
    assert not compared([ONES.T], [ONES])[0]


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(proof_rounds, "REST_S", 0.0)
    return []


def sides(order: list[str], **seconds: float) -> dict[Side, Measure]:
    def side(name: str, each: float) -> Measure:
        def measure(number: int) -> float:
            order.append(f"{name} {number}")
            return each

        return measure

    return {name: side(name, each) for name, each in seconds.items()}  # type: ignore[misc]


def test_sides_take_turns_and_fast_ones_run_more_often(order: list[str]) -> None:
    shares: list[float] = []
    rounds = benchmarked(sides(order, tuned=0.02, untuned=0.1), 1e6, shares.append)
    assert order[:6] == ["tuned 1", "untuned 1", "tuned 5", "untuned 1", "untuned 1", "tuned 5"]
    assert rounds == {"tuned": [0.02] * MOST_ROUNDS, "untuned": [0.1] * MOST_ROUNDS}
    assert shares == sorted(shares)


def test_it_ends_in_time_but_runs_a_minimum_of_rounds(order: list[str]) -> None:
    rounds = benchmarked(sides(order, tuned=20.0, untuned=90.0), 60.0, lambda _: None)
    assert rounds == {"tuned": [20.0] * LEAST_OF_FIRST, "untuned": [90.0]}, "one inference takes all the time"
    assert LEAST_OF_FIRST == FEWEST, "the tuned library's noise is told"
    rounds = benchmarked(sides(order, tuned=20.0, untuned=50.0), 60.0, lambda _: None)
    assert [len(each) for each in rounds.values()] == [LEAST_OF_FIRST, LEAST_ROUNDS]
    rounds = benchmarked(sides(order, tuned=1.0, untuned=4.0), 60.0, lambda _: None)
    assert [len(each) for each in rounds.values()] == [12, 12]


def test_a_slow_side_leaves_the_time_to_the_others(order: list[str]) -> None:
    """Neither the slowest nor, for what it is compared with, the first one is in the way of the others."""
    shares: list[float] = []
    rounds = benchmarked(sides(order, tuned=1.0, untuned=90.0, onnxruntime=2.0), 60.0, shares.append)
    assert {side: len(each) for side, each in rounds.items()} == {"tuned": 20, "untuned": 1, "onnxruntime": 20}
    assert shares == sorted(shares)
    rounds = benchmarked(sides(order, tuned=90.0, onnxruntime=1.0), 60.0, lambda _: None)
    assert {side: len(each) for side, each in rounds.items()} == {"tuned": 5, "onnxruntime": 3}, (
        "the first one has its rounds, whatever they take"
    )
