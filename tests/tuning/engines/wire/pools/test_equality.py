from __future__ import annotations

import random

import pytest

from tuning.engines.wire.pools.equality import Rounds, compare

TIMES = {"a": 1e-3, "b": 2e-5, "c": 0.4}


def rounds(factor: float = 1.0, noise: float = 0.0, seed: int = 0) -> Rounds:
    """Five rounds of three candidates on a machine that is slower by the factor. Noise only slows down."""
    draw = random.Random(seed)
    return {name: [seconds * factor * (1 + noise * draw.random()) for _ in range(5)] for name, seconds in TIMES.items()}


def test_equal_machines_stay_and_a_slower_or_faster_one_is_left_out() -> None:
    verdict = compare({"one": rounds(), "two": rounds(1.04), "slow": rounds(1.12), "fast": rounds(0.9)})
    assert verdict.reference == "one"
    assert verdict.left_out == {"slow": pytest.approx(0.12), "fast": pytest.approx(1 - 1 / 0.9)}
    assert verdict.differences["one"] == 0


def test_the_majority_is_the_reference_and_the_first_of_equals() -> None:
    assert compare({"slow": rounds(1.2), "one": rounds(), "two": rounds(1.01)}).reference == "one"
    assert set(compare({"slow": rounds(1.2), "one": rounds(), "two": rounds(1.01)}).left_out) == {"slow"}
    assert compare({"two": rounds(1.1), "one": rounds()}).reference == "two"
    assert set(compare({"two": rounds(1.1), "one": rounds()}, reference="one").left_out) == {"two"}


@pytest.mark.parametrize("seed", range(20))
def test_noise_leaves_no_equal_machine_out(seed: int) -> None:
    noisy = {name: rounds(noise=0.25, seed=seed * 10 + nth) for nth, name in enumerate("pqrs")}
    verdict = compare({"quiet": rounds(), **noisy})
    assert verdict.left_out == {}
    assert verdict.noise["quiet"] == 0
    assert all(0.01 < verdict.noise[name] < 0.25 for name in noisy)


@pytest.mark.parametrize("seed", range(20))
def test_noise_doesnt_hide_a_machine_that_is_much_slower(seed: int) -> None:
    verdict = compare({"one": rounds(noise=0.1, seed=seed), "slow": rounds(1.5, noise=0.1, seed=seed + 100)})
    assert set(verdict.left_out) == {"slow"}


def test_one_disturbed_candidate_doesnt_decide() -> None:
    disturbed = dict(rounds()) | {"a": [2e-3] * 5}
    assert compare({"one": rounds(), "two": disturbed}).left_out == {}


def test_machines_are_compared_by_what_all_have_measured() -> None:
    partly = {name: times for name, times in rounds(1.1).items() if name != "b"}
    assert compare({"one": rounds(), "two": partly}).left_out == {"two": pytest.approx(0.1)}
    with pytest.raises(ValueError, match="no candidate in common"):
        compare({"one": {"a": [1.0]}, "two": {"b": [1.0]}})
    with pytest.raises(ValueError, match="no candidate in common"):
        compare({})
    with pytest.raises(ValueError, match="must be positive"):
        compare({"one": {"a": [1.0, 0.0]}, "two": {"a": [1.0, 1.0]}})
