"""The reference of a run on many machines: which candidate it is, when it is handed out again, and what is told of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.tuning.engines.running import Engine, latencies, options, start
from tuning.engines.measuring.outcomes import Failure, Timing
from tuning.engines.meta_schedule.trust.pooled_reference import PooledReference
from tuning.engines.wire import protocol
from tuning.engines.wire.protocol import (
    Candidate,
    Failed,
    Finished,
    Measured,
    Pool,
    ReferenceMeasured,
    encode,
)

AT_ONCE = protocol.Reference(every_s=0, most_share=1)


class Machines:
    """What was handed out to them, and a clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.sent: list[Candidate] = []
        self.reported: list[tuple[int, float]] = []
        self.reference = PooledReference(
            protocol.Reference(), self.sent.append, lambda *told: self.reported.append(told), lambda: self.now
        )

    def end_trial(self, number: int, outcome: Timing | Failure) -> None:
        self.reference.consider(number, outcome, lambda: Candidate(f"c{number}", 1, b"module", [], 1e-3))

    def answer(self, **values: Any) -> None:
        given: dict[str, Any] = {"id": self.sent[-1].id, "machine": "lab-2", "run_secs": [2e-3]} | values
        assert self.reference.awaits(given["id"])
        self.reference.take(Measured(**given))


def test_the_first_good_trial_is_handed_out_again_in_full_and_never_twice_at_a_time() -> None:
    machines = Machines()
    unfit: list[Timing | Failure] = [Failure("run", "crashed"), Timing([1e-7]), Timing([1e-3], short=True)]
    for number, bad in enumerate(unfit, start=1):
        machines.end_trial(number, bad)
    machines.end_trial(4, Timing([1e-3]))
    machines.end_trial(5, Timing([5e-4]))
    for machines.now in (19.0, 20.0, 60.0):
        machines.reference.hand_out_if_due()
    (sent,) = machines.sent
    assert (sent.module, sent.task, sent.limit_s, sent.again) == (b"module", 1, None, True)
    assert sent.id != "c4", "an answer to it isn't one to the trial"
    assert not machines.reference.awaits("c4")
    machines.answer(build_s=1.5, measure_s=0.5)
    assert machines.reported == [(4, 2e-3)]
    assert not machines.reference.awaits(sent.id), "a machine that was believed dead may answer, too"
    for machines.now in (159.0, 160.0):
        machines.reference.hand_out_if_due()
        assert len(machines.sent) == (1 if machines.now < 160 else 2), "it took 2 s, which are 2 % of 100 s"
    assert machines.sent[0].id != machines.sent[1].id


def test_one_that_fails_is_given_up() -> None:
    machines = Machines()
    machines.end_trial(1, Timing([1e-3]))
    machines.now = 20.0
    machines.reference.hand_out_if_due()
    machines.answer(run_secs=[], error_kind="run", error="crashed")
    machines.now = 1000.0
    machines.reference.hand_out_if_due()
    machines.end_trial(2, Timing([1e-3]))
    machines.reference.hand_out_if_due()
    assert (len(machines.sent), machines.reported) == (1, [])


def test_one_that_is_lost_has_no_successor() -> None:
    machines = Machines()
    machines.reference.use(3, None)
    machines.end_trial(9, Timing([1e-3]))
    machines.now = 100.0
    machines.reference.hand_out_if_due()
    assert machines.sent == []


def candidates(engine: Engine, *, again: bool) -> list[Candidate]:
    return [event for event in engine.seen if isinstance(event, Candidate) and event.again is again]


def references(engine: Engine) -> list[ReferenceMeasured]:
    return [event for event in engine.seen if isinstance(event, ReferenceMeasured)]


def answer(engine: Engine, nth: int, seconds: float, *, again: bool) -> None:
    """Answer the n-th candidate, from 0, once it was sent, and wait until the engine tells of it."""
    events = iter(engine)
    while len(candidates(engine, again=again)) <= nth:
        next(events)
    engine.write(encode(Measured(id=candidates(engine, again=again)[nth].id, machine="a", run_secs=[seconds])))
    while len(references(engine) if again else engine.trials) <= nth:
        next(events)


def tune(engine: Engine, trials: int) -> protocol.Event:
    """Answer a trial with 1 ms, then the reference with 3 ms, and so on."""
    for nth in range(trials - 1):
        answer(engine, nth, 1e-3, again=False)
        answer(engine, nth, 3e-3, again=True)
    answer(engine, trials - 1, 1e-3, again=False)
    return engine.to_the_end()


@pytest.mark.tvm
def test_the_machines_measure_it_again_also_for_the_runs_next_process(tmp_path: Path) -> None:
    work_dir, console = tmp_path / "work", tmp_path / "console"
    given: dict[str, Any] = {"pool": Pool(slots=2), "options": options(trials_per_batch=4)}
    with Engine(start(work_dir, trials_budget=6, reference=AT_ONCE, **given), console) as first:
        assert tune(first, 6) == Finished("budget"), console.read_text()
    assert [(one.trial, one.latency_s) for one in references(first)] == [(1, 3e-3)] * 5
    assert [trial.latency_s for trial in first.trials] == [1e-3] * 6
    assert len(latencies(work_dir)) == 6

    resumed = protocol.Reference(1, every_s=0, most_share=1)
    with Engine(start(work_dir, trials_budget=8, trials_done=6, reference=resumed, **given), console) as second:
        assert tune(second, 2) == Finished("budget"), console.read_text()
    assert [(one.trial, one.latency_s) for one in references(second)] == [(1, 3e-3)]
    before, now = (candidates(engine, again=True)[0] for engine in (first, second))
    assert (before.task, before.args_info) == (now.task, now.args_info)


@pytest.mark.tvm
def test_a_made_up_answer_to_it_ends_the_run(tmp_path: Path) -> None:
    given = start(tmp_path / "work", trials_budget=12, reference=AT_ONCE, pool=Pool(slots=2))
    with Engine(given, tmp_path / "console") as engine:
        while not (event := engine.until(Candidate)).again:
            engine.write(encode(Measured(id=event.id, machine="a", run_secs=[1e-3])))
        engine.write(encode(Measured(id=event.id, machine="toy", run_secs=[1e-3], synthetic=True)))
        assert engine.to_the_end() == Failed("The machine toy has a fake device, but this run is to be measured.")
    assert not any(isinstance(event, ReferenceMeasured) for event in engine.seen)
