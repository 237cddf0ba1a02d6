"""What is stored of rounds and of the cost model's rankings."""

from __future__ import annotations

import pytest

from tests.world import measured_run, trial
from tuning.engines.wire.protocol import Ranked, Round
from tuning.work.recorder import EngineMisbehaved, Recorder

pytestmark = pytest.mark.django_db
ROUND = Round(1, 3, 1, 4.0, 9.0, search_s=1.0, learn_s=0.5, build_s=1.5, measure_s=1.25, wait_s=0.25)
RANKED = Ranked(1, 4, 8.5, 0.75, [0.9, 0.1, 0.4, 0.3], [1e-3, 4e-3, 3e-3, 2e-3])


def test_rounds_and_rankings_are_stored_with_the_batch() -> None:
    run = measured_run()
    start = Round(None, 0, 0, 0.0, 1.5)
    Recorder(run).record([start, trial(1), RANKED, ROUND])
    tasks = [None, run.tasks.get(index=1).pk]
    columns = ("done", "candidates", "began_s", "ended_s", "search_s", "learn_s", "build_s", "measure_s", "wait_s")
    assert list(run.rounds.values_list("task", *columns)) == [
        (tasks[0], *(getattr(start, name) for name in columns)),
        (tasks[1], *(getattr(ROUND, name) for name in columns)),
    ]
    (ranking,) = run.rankings.all()
    assert (ranking.task.index, ranking.done, ranking.at_s, ranking.correlation) == (1, 4, 8.5, 0.75)
    assert (ranking.scores, ranking.latencies_s) == (RANKED.scores, RANKED.latencies_s)


def test_a_round_of_a_task_that_there_isnt_is_refused() -> None:
    run = measured_run()
    with pytest.raises(EngineMisbehaved, match="task 9"):
        Recorder(run).record([trial(0), Round(9, 3, 1, 4.0, 9.0)])
    assert not run.rounds.exists()
    assert run.trials.count() == 3
