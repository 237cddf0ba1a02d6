"""How much of the spread of latencies a choice explains."""

from __future__ import annotations

from random import Random

import pytest

from tuning.schedules.importance import LEAST_TRIALS, importance


def test_a_choice_that_decides_everything_explains_everything() -> None:
    values = [number % 3 for number in range(60)]
    found = importance(
        {"tile": values, "other": [number % 2 for number in range(60)]}, [10.0**value for value in values]
    )
    assert found
    (first, share), (_, rest) = found.shares
    assert first == "tile"
    assert share == pytest.approx(1.0)
    assert rest < 0.1
    assert found.chance < share


def test_it_is_the_unbiased_ratio_of_a_known_table() -> None:
    """Two groups of logs 0, 2 and 1, 3, fifteen times: SST is 75, SSW 60, so ε² is 1 - (60 / 58) / (75 / 59)."""
    logs = [0, 2, 1, 3] * 15
    groups = ["a", "a", "b", "b"] * 15
    found = importance({"group": groups}, [2.718281828459045**value for value in logs])
    assert found
    ((_, share),) = found.shares
    assert share == pytest.approx(1 - (60 / 58) / (75 / 59))


def test_chance_explains_no_more_than_shuffled_latencies() -> None:
    random = Random(7)
    columns = {f"noise {nth}": [random.randrange(4) for _ in range(200)] for nth in range(10)}
    columns["signal"] = [number % 4 for number in range(200)]
    latencies = [1.5 ** (number % 4) * random.uniform(0.8, 1.25) for number in range(200)]
    found = importance(columns, latencies)
    assert found
    assert found.shares[0][0] == "signal"
    assert found.shares[0][1] > 10 * found.chance
    assert found == importance(columns, latencies), "the same figures each time"


def test_values_that_each_trial_has_for_itself_explain_nothing() -> None:
    numbers = list(range(LEAST_TRIALS))
    found = importance({"own": numbers, "constant": [1] * LEAST_TRIALS}, [1.0 + number for number in numbers])
    assert found
    assert found.shares == [("own", 0.0)]


@pytest.mark.parametrize("latencies", [[1.0 + number for number in range(LEAST_TRIALS - 1)], [2.0] * 100, []])
def test_too_little_is_not_told(latencies: list[float]) -> None:
    assert importance({"tile": [number % 2 for number in range(len(latencies))]}, latencies) is None
