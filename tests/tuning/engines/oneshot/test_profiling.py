"""What each function takes inside a network; `test_compiling` profiles a real one."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from tuning.engines.oneshot import profiling
from tuning.engines.wire.compiling import Part, Profile

US = 1e-6


class Network:
    """Each inference is slower than the one before, by a microsecond a call."""

    def __init__(self, calls: dict[str, list[float]]) -> None:
        self._calls = calls
        self._slower = count()

    def calls(self) -> profiling.Calls:
        more = next(self._slower) * US
        return {name: [seconds + more for seconds in each] for name, each in self._calls.items()}


def profiled(monkeypatch: pytest.MonkeyPatch, inferences: int, **calls: list[float]) -> Profile:
    monkeypatch.setattr(profiling, "LEAST", inferences)
    monkeypatch.setattr(profiling, "SECONDS", 0.0)
    network: Any = Network({name.replace("vm_", profiling.OWN): each for name, each in calls.items()})
    return profiling.profiled(network)


def test_a_part_is_the_median_of_a_call_without_its_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shortest call of the machine's own took 1.5 µs, in the second inference: the first isn't counted."""
    calls = {
        "vm_null": [0.5 * US],
        "vm_alloc": [2.5 * US, 3.5 * US],
        "conv_prepacked": [100 * US, 104 * US],
        "dense": [9 * US],
    }
    found = profiled(monkeypatch, 3, **calls)
    assert [part.function for part in found.functions] == ["conv", "dense"]
    assert [part.calls for part in found.functions] == [2, 1]
    assert [part.inside_s for part in found.functions] == pytest.approx([102.5 * US, 9.5 * US])
    assert found.machine_calls == 3
    assert found.machine_s == pytest.approx((1 + 7) * US), "2.5 µs, and 4.5 and 5.5 µs, less 1.5 µs each"


def test_what_is_shorter_than_its_timing_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = profiled(monkeypatch, 1, vm_null=[2 * US], copy=[1 * US])
    assert found == Profile([Part("copy", 1, 0.0)], 0.0, 1)
