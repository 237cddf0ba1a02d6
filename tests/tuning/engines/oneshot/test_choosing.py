"""What is chosen of given times inside a network; `test_compiling` chooses inside a real one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from tuning.engines.oneshot import choosing, profiling
from tuning.engines.proof import rounds
from tuning.engines.wire.compiling import BestRecord, Chosen

FUNCTIONS = ("conv", "dense")


def record(trial: int) -> BestRecord:
    return BestRecord(7, trial, trial * 1e-3, "")


@dataclass
class Inside:
    """Networks of two functions, whose records take these seconds inside."""

    times: Mapping[int, float]
    """By trial."""
    whole: Mapping[tuple[int, ...], float] = field(default_factory=dict)
    """By trials: the seconds of one inference, if that isn't the sum."""
    built: list[tuple[int, ...]] = field(default_factory=list)

    def build(self, records: Sequence[BestRecord]) -> tuple[choosing.Network, Mapping[str, int]]:
        self.built.append(tuple(one.trial for one in records))
        return _Network(self, self.built[-1]), {name: nth for nth, name in enumerate(FUNCTIONS)}


@dataclass
class _Network:
    inside: Inside
    trials: tuple[int, ...]

    def calls(self) -> profiling.Calls:
        """The first function is called twice, and its weights are packed."""
        conv, dense = (self.inside.times[trial] for trial in self.trials)
        return {"conv_prepacked": [conv, conv], "dense": [dense], "vm.builtin.alloc_tensor": [1e-6] * 3}

    def measure(self, number: int) -> float:
        return self.inside.whole.get(self.trials, sum(self.inside.times[trial] for trial in self.trials))


@pytest.fixture(autouse=True)
def restless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "REST_S", 0.0)


def chosen(inside: Inside, best: Sequence[int], more: Sequence[Sequence[int]]) -> tuple[list[int], Chosen]:
    alternatives = [[record(trial) for trial in few] for few in more]
    wanted, found = choosing.chosen(inside.build, [record(one) for one in best], alternatives, 1e-9, lambda _: None)
    return [one.trial for one in wanted], found


def test_the_fastest_record_inside_is_chosen_for_each_function() -> None:
    inside = Inside({1: 3e-3, 2: 1e-3, 3: 2e-3, 4: 5e-3, 5: 6e-3})
    wanted, found = chosen(inside, [1, 4], [[2, 3], [5]])
    assert wanted == [2, 4]
    assert inside.built == [(1, 4), (2, 5), (3, 4), (2, 4)], "one network for each rank, and the combination"
    conv, dense = found.functions
    assert (conv.function, conv.calls, conv.chosen) == ("conv", 2, 1)
    assert [(one.trial, one.latency_s, one.inside_s) for one in conv.tried] == [
        (1, 1e-3, 3e-3),
        (2, 2e-3, 1e-3),
        (3, 3e-3, 2e-3),
    ]
    assert (dense.function, dense.calls, dense.chosen) == ("dense", 1, 0)
    assert found.kept
    assert set(found.rounds["best"]) == {8e-3}
    assert set(found.rounds["chosen"]) == {6e-3}


def test_records_that_are_slower_together_are_not_kept() -> None:
    inside = Inside({1: 3e-3, 2: 1e-3, 4: 5e-3}, whole={(2, 4): 9e-3})
    wanted, found = chosen(inside, [1, 4], [[2], []])
    assert (wanted, found.kept, found.functions[0].chosen) == ([1, 4], False, 1)


def test_nothing_more_is_built_if_the_best_records_are_the_fastest_inside() -> None:
    inside = Inside({1: 1e-3, 2: 2e-3, 4: 5e-3, 5: 5e-3})
    wanted, found = chosen(inside, [1, 4], [[2], [5]])
    assert (wanted, found.rounds, found.kept) == ([1, 4], {}, False)
    assert inside.built == [(1, 4), (2, 5)]


def test_without_alternatives_the_times_inside_are_told_all_the_same() -> None:
    wanted, found = chosen(Inside({1: 1e-3, 4: 5e-3}), [1, 4], [[], []])
    assert wanted == [1, 4]
    assert [[one.inside_s for one in each.tried] for each in found.functions] == [[1e-3], [5e-3]]


def test_a_record_that_is_faster_only_now_and_then_is_not_chosen() -> None:
    class Noisy(dict[int, float]):
        turn = 0

        def __getitem__(self, trial: int) -> float:
            """Trial 2 has the lower median, but wins only two of three rounds."""
            if trial == 1:
                return 2e-3
            if trial != 2:
                return 1e-3
            self.turn += 1
            return 3e-3 if (self.turn - 1) // (choosing.PASSES + 1) % 3 == 0 else 1e-3

    wanted, found = chosen(Inside(Noisy()), [1, 4], [[2], []])
    assert found.functions[0].tried[1].inside_s == 1e-3
    assert (wanted, found.functions[0].chosen) == ([1, 4], 0)
