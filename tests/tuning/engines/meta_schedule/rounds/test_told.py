"""What a real engine tells of its rounds."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.tuning.engines.running import Engine, options, start
from tuning.engines.meta_schedule.rounds.ranking import rank_correlation
from tuning.engines.wire.protocol import Finished, Ranked, Round

pytestmark = pytest.mark.tvm
TRIALS, BATCH = 48, 16


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """An engine that has ended. Its cost model ranks the third batch, having learned from the first two."""
    folder = tmp_path_factory.mktemp("rounds")
    given = start(
        folder / "work", trials_budget=TRIALS, elapsed_s=100.0, options=options(trials_per_batch=BATCH, min_repeat_ms=0)
    )
    with Engine(given, folder / "console") as engine:
        assert engine.to_the_end() == Finished("budget")
    return engine


@pytest.mark.rare
def test_rounds_divide_the_time_without_gaps(engine: Engine) -> None:
    rounds = [event for event in engine.seen if isinstance(event, Round)]
    assert [(one.task, one.done, one.candidates) for one in rounds] == [
        (None, 0, 0),
        *((0, done, BATCH) for done in range(0, TRIALS, BATCH)),
    ]
    assert rounds[0].began_s == 100.0, "the run's earlier processes took so long"
    assert all(before.ended_s == after.began_s for before, after in pairwise(rounds))
    last = engine.trials[-1].at_s
    assert last is not None
    assert rounds[-1].ended_s >= last
    for one in rounds[1:]:
        parts = (one.search_s, one.learn_s, one.build_s, one.measure_s)
        assert min(parts) > 0
        assert sum(parts) + one.wait_s <= one.ended_s - one.began_s + 1e-6
        assert (one.beside_build_s, one.beside_measure_s) == (0, 0)


def test_the_cost_model_is_asked_before_it_learns(engine: Engine) -> None:
    (ranked,) = [event for event in engine.seen if isinstance(event, Ranked)]
    latest = [trial.latency_s for trial in engine.trials[-BATCH:] if trial.latency_s is not None]
    assert (ranked.task, ranked.done) == (0, TRIALS)
    assert ranked.latencies_s == pytest.approx(latest)
    assert len(ranked.scores) == len(latest)
    assert ranked.correlation == rank_correlation(ranked.scores, [-latency for latency in ranked.latencies_s])
