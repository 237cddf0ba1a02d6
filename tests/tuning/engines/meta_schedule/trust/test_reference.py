"""The run's reference: which record it is, when it is measured again, and what is told of it."""

from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.tuning.engines.running import Engine, latencies, start
from tuning.engines.measuring.outcomes import Failure, Timing
from tuning.engines.meta_schedule.trust.built import Built
from tuning.engines.meta_schedule.trust.reference import Reference
from tuning.engines.wire import protocol
from tuning.engines.wire.protocol import Finished, ReferenceMeasured, Round, TrialMeasured

AT_ONCE = protocol.Reference(every_s=0, most_share=1)
"""Measured before each batch."""


class Device:
    """A runner whose measurements take what its clock says, and give a millisecond."""

    def __init__(self) -> None:
        self.now = 0.0
        self.takes_s = 0.1
        self.outcome: Timing | Failure = Timing([1e-3])
        self.reported: list[tuple[float, int, float]] = []

    def run(
        self, path: Path, device_type: str, args_info: list[Any], limit_s: float | None, cold_bytes: int
    ) -> Timing | Failure:
        assert (path.read_text(), device_type, args_info, limit_s) == ("built", "cpu", ["arg"], None)
        path.unlink()
        self.now += self.takes_s
        return self.outcome

    def reference(self) -> Reference:
        return Reference(self, protocol.Reference(), self.report, lambda: self.now)

    def report(self, trial: int, latency_s: float) -> None:
        self.reported.append((round(self.now, 6), trial, latency_s))


def built(folder: Path) -> Built:
    path = folder / "candidate.ll"
    path.write_text("built")
    return Built(path, "cpu", ["arg"])


def try_(reference: Reference, folder: Path, trial: int, outcome: Timing | Failure) -> None:
    """As a trial is measured: its artifact is gone afterwards."""
    candidate = built(folder)
    spared = reference.spare(candidate)
    candidate.path.unlink()
    reference.consider(trial, spared, outcome)


def test_the_first_good_trial_is_it(tmp_path: Path) -> None:
    device = Device()
    reference = device.reference()
    too_short, too_long, cut_short = Timing([1e-7]), Timing([2.0]), Timing([1e-3], short=True)
    bad: list[Timing | Failure] = [Failure("run", "crashed"), too_short, too_long, cut_short]
    for number, outcome in enumerate(bad, start=1):
        try_(reference, tmp_path, number, outcome)
        assert list(tmp_path.iterdir()) == []
    try_(reference, tmp_path, 5, Timing([1e-3]))
    try_(reference, tmp_path, 6, Timing([5e-4]))
    device.now = 30.0
    reference.measure_if_due()
    assert device.reported == [(30.1, 5, 1e-3)]


@pytest.mark.parametrize(("takes_s", "again_after_s"), [(0.1, 20.0), (1.0, 50.0)])
def test_it_is_measured_every_20_s_and_at_most_2_percent_of_the_time(
    tmp_path: Path, takes_s: float, again_after_s: float
) -> None:
    device = Device()
    device.takes_s = takes_s
    reference = device.reference()
    reference.use(3, built(tmp_path))
    times = []
    while len(device.reported) < 3:
        device.now += 0.5
        before = len(device.reported)
        reference.measure_if_due()
        times += [device.now] if len(device.reported) > before else []
    gaps = [later - takes_s - earlier for earlier, later in pairwise(times)]
    assert gaps == pytest.approx([again_after_s] * 2)


def test_time_spent_waiting_for_a_device_isnt_its_own(tmp_path: Path) -> None:
    device = Device()
    device.takes_s, device.outcome = 60.0, Timing([1e-3], used_s=0.1)
    reference = device.reference()
    reference.use(3, built(tmp_path))
    device.now = 20.0
    for _ in range(2):
        reference.measure_if_due()
        device.now += 20
    assert [at for at, *_ in device.reported] == [80.0, 160.0]


def test_several_threads_choose_one_and_one_of_them_measures_it(tmp_path: Path) -> None:
    device = Device()
    reference = device.reference()
    folders = [tmp_path / str(number) for number in range(3)]
    for folder in folders:
        folder.mkdir()
    spared = [reference.spare(built(folder)) for folder in folders]
    assert all(spared), "none of them had ended"
    for number, one in enumerate(spared, start=1):
        reference.consider(number, one, Timing([1e-3]))
    assert [path.name for path in tmp_path.glob("*/reference-*")] == ["reference-candidate.ll"]

    measured = device.run

    def meanwhile(*args: Any) -> Timing | Failure:
        other = threading.Thread(target=reference.measure_if_due)
        other.start()
        other.join()
        return measured(*args)

    device.run = meanwhile  # type: ignore[assignment, method-assign]
    device.now = 20.0
    reference.measure_if_due()
    assert [trial for _, trial, _ in device.reported] == [1]


def test_a_reference_that_fails_is_given_up(tmp_path: Path) -> None:
    device = Device()
    device.outcome = Failure("run", "crashed")
    reference = device.reference()
    reference.use(3, built(tmp_path))
    for device.now in (20.0, 40.0):
        reference.measure_if_due()
    assert (device.now, device.reported) == (40.0, [])


def test_one_that_could_not_be_built_again_has_no_successor(tmp_path: Path) -> None:
    device = Device()
    reference = device.reference()
    reference.use(3, None)
    try_(reference, tmp_path, 9, Timing([1e-3]))
    device.now = 30.0
    reference.measure_if_due()
    assert device.reported == []


@pytest.mark.tvm
def test_it_is_measured_again_without_being_a_trial_and_by_the_runs_next_process_too(tmp_path: Path) -> None:
    work_dir, console = tmp_path / "work", tmp_path / "console"
    with Engine(start(work_dir, trials_budget=12, reference=AT_ONCE), console) as first:
        assert first.to_the_end() == Finished("budget")
    (reference,) = {event.trial for event in first.seen if isinstance(event, ReferenceMeasured)}
    good = [number for number, one in enumerate(first.trials, start=1) if one.latency_s and not one.short]
    assert reference == good[0]
    assert [trial.latency_s for trial in first.trials] == pytest.approx(latencies(work_dir), rel=1e-12)

    again = start(
        work_dir,
        trials_budget=16,
        trials_done=12,
        elapsed_s=60.0,
        reference=protocol.Reference(reference, every_s=0, most_share=1),
    )
    with Engine(again, console) as second:
        assert second.to_the_end() == Finished("budget")
    measured = [event for event in second.seen if isinstance(event, (ReferenceMeasured, TrialMeasured))]
    assert isinstance(measured[0], ReferenceMeasured)
    assert measured[0].trial == reference
    assert measured[0].latency_s > 0
    assert measured[0].at_s > 60
    assert len(second.trials) == 4
    assert all(event.again_s > 0 for event in second.seen if isinstance(event, Round) and event.task is not None)
