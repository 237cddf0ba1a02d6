"""How far measurements lie apart, and which differences that explains."""

from __future__ import annotations

from random import Random

import pytest

from tuning import wording
from tuning.noise import FEWEST, combined, difference, drift, noise


@pytest.mark.parametrize("latencies", [[], [1.0] * (FEWEST - 1), [0.0] * FEWEST], ids=["none", "few", "zeros"])
def test_it_is_not_told_of_too_few_measurements(latencies: list[float]) -> None:
    assert noise(latencies) is None


@pytest.mark.parametrize("count", [5, 9, 10, 40])
def test_it_is_twice_the_standard_deviation_however_few_there_are(count: int) -> None:
    random = Random(1)
    found = [noise([random.gauss(1e-3, 1e-5) for _ in range(count)]) or 0 for _ in range(3000)]
    assert sum(found) / len(found) == pytest.approx(0.02, rel=0.05)


def test_a_few_outliers_do_not_change_it() -> None:
    quiet = [1.0, 1.01, 0.99, 1.02, 0.98, 1.0, 1.01, 0.99, 1.02, 0.98]
    assert noise([*quiet, 7.0, 9.0]) == pytest.approx(noise(quiet), rel=0.6)
    assert noise([1.0] * 10) == 0


@pytest.mark.parametrize(
    ("noises", "of_both"), [((0.03, 0.04), 0.05), ((0.02,), 0.02), ((0.03, None), None), ((None,), None), ((), None)]
)
def test_a_difference_has_the_noise_of_both_figures(noises: tuple[float | None, ...], of_both: float | None) -> None:
    assert combined(*noises) == (of_both if of_both is None else pytest.approx(of_both))


@pytest.mark.parametrize(
    ("latency_s", "noises", "words"),
    [
        (0.97, (0.03, 0.04), "−3.0\u00a0%, within noise"),
        (0.94, (0.03, 0.04), "−6.0\u00a0%"),
        (1.05, (0.03, 0.05), "+5.0\u00a0%, within noise"),
        (1.0, (0.0, 0.0), "0.0\u00a0%, within noise"),
        (0.97, (0.5, None), "−3.0\u00a0%"),
    ],
)
def test_it_says_whether_a_difference_is_within_noise(
    latency_s: float, noises: tuple[float | None, ...], words: str
) -> None:
    found = difference(latency_s, 1.0, *noises)
    assert wording.difference(found.change, within_noise=found.within_noise) == words


@pytest.mark.parametrize(
    ("noise_of_it", "text"),
    [
        (0.02, "±\u00a02\u00a0%"),
        (0.0051, "±\u00a00.5\u00a0%"),
        (0.0099, "±\u00a01.0\u00a0%"),
        (0.00999, "±\u00a01\u00a0%"),
        (0.184, "±\u00a018\u00a0%"),
    ],
)
def test_it_stands_behind_its_figure(noise_of_it: float, text: str) -> None:
    assert wording.plus_minus(noise_of_it) == text


STEADY = [1.0, 1.01, 0.99, 1.01, 0.99]


@pytest.mark.parametrize(
    ("latencies", "change"),
    [
        (STEADY * 2, None),
        (STEADY + [1.18 * each for each in STEADY], 0.18),
        (STEADY + [0.9 * each for each in STEADY], -0.1),
        (STEADY + [1.04 * each for each in STEADY], None),  # Too little to be told.
        ([1.0, 1.5, 0.7, 1.4, 0.6] + [1.18] * 5, None),  # Within the noise of its beginning.
        (STEADY + [1.18] * 4, None),  # Too few.
        (STEADY + [9.0] * 30 + STEADY, None),  # It is as it was.
    ],
)
def test_a_machine_drifts_if_the_latest_measurements_differ_from_the_first(
    latencies: list[float], change: float | None
) -> None:
    assert drift(latencies) == (change if change is None else pytest.approx(change))
