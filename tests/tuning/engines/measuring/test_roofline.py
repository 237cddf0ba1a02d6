"""A machine's roofline, measured for real."""

from __future__ import annotations

import itertools

import pytest

from tests.tuning.engines.running import Engine, start
from tuning.engines.measuring import roofline
from tuning.engines.wire.protocol import Finished, RooflineMeasured, TasksExtracted, TrialMeasured


def test_working_sets_begin_in_the_first_cache_and_leave_memory_free() -> None:
    sizes = roofline.working_sets(threads=2, free=1 << 40)
    assert (sizes[0], sizes[-1]) == (2 * roofline.LEAST, roofline.MOST)
    assert all(after == 2 * before for before, after in itertools.pairwise(sizes))
    assert roofline.working_sets(threads=2, free=64 << 20)[-1] == 8 << 20
    assert roofline.working_sets(threads=2, free=0) == [2 * roofline.LEAST]


@pytest.mark.rare
@pytest.mark.tvm
def test_an_engine_measures_it_once_before_its_first_trial(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("roofline")
    with Engine(start(folder / "first", rooflines=[]), folder / "console") as engine:
        assert engine.to_the_end() == Finished("budget")
    kinds = [type(event) for event in engine.seen]
    assert kinds.count(RooflineMeasured) == 1
    assert kinds.index(RooflineMeasured) < kinds.index(TrialMeasured)
    (found,) = [event for event in engine.seen if isinstance(event, RooflineMeasured)]
    (extracted,) = [event for event in engine.seen if isinstance(event, TasksExtracted)]
    assert found.threads == extracted.target["num-cores"]
    # Of one core of an old laptop, and of the largest server.
    assert 1e9 < found.flops < 1e14
    assert all(1e8 < rate < 1e14 for _, rate in found.bandwidths)
    fastest = min(trial.latency_s for trial in engine.trials if trial.latency_s is not None)
    flop = extracted.tasks[0].flop
    assert flop
    assert flop / fastest < 1.5 * found.flops, "no record exceeds the roof by more than noise"

    with Engine(start(folder / "again", rooflines=[extracted.target]), folder / "console") as engine:
        assert engine.to_the_end() == Finished("budget")
    assert not [event for event in engine.seen if isinstance(event, RooflineMeasured)]
