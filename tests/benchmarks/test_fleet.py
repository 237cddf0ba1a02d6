"""The benchmarks of runs over many machines, with made-up latencies in place of measurements."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from tests.benchmarks.engine.sides import Broken
from tests.benchmarks.fleet import figures, quality, report
from tests.benchmarks.fleet.figures import Finding, Span
from tests.benchmarks.fleet.observing import Killed, Observed, Plan
from tests.benchmarks.fleet.quality import Comparison, Outcome, compare, geometric_mean
from tests.benchmarks.fleet.stamps import Stamp
from tests.benchmarks.fleet.usage import Usage
from tuning.engines.wire.pools.messages import FakeDevice
from tuning.engines.wire.protocol import Candidate, Measured


class MadeUp:
    """In place of `quality.Table`."""

    def __init__(self) -> None:
        self.known: set[str] = set()

    def __len__(self) -> int:
        return len(self.known)

    @staticmethod
    def latency_s(candidate: Candidate) -> float:
        return 1e-3 + int.from_bytes(hashlib.sha256(candidate.module).digest()[:4], "big") * 1e-12

    def answer(self, candidate: Candidate) -> Measured:
        self.known.add(hashlib.sha256(candidate.module).hexdigest())
        return Measured(id=candidate.id, machine="none", run_secs=[self.latency_s(candidate)])

    def again(self, candidates: Sequence[Candidate]) -> list[float]:
        return [self.latency_s(each) for each in candidates]


@pytest.mark.rare
@pytest.mark.tvm
def test_it_compares_what_many_slots_find_with_what_one_finds(tmp_path: Path) -> None:
    table = MadeUp()
    found = compare(quality.Plan("matmul", 1, 40), [8], table, tmp_path)
    one, many = found.outcomes
    assert (one.slots, many.slots) == (1, 8)
    assert one.measured + many.measured == len(table.known)
    assert all(0 < each.measured <= 40 for each in found.outcomes)
    assert found.ratio(8) == many.best_s / one.best_s


def test_ratios_are_averaged_geometrically() -> None:
    twice, half = (
        Comparison(quality.Plan("matmul", seed, 1), [Outcome(1, 1.0, 1), Outcome(8, best_s, 1)])
        for seed, best_s in ((1, 2.0), (2, 0.5))
    )
    told = geometric_mean([twice, half], 8)
    assert told.ratio == pytest.approx(1)
    assert told.bounds == pytest.approx((2**-12.706, 2**12.706), rel=1e-3), "Student's t with one degree of freedom"
    assert str(geometric_mean([twice], 8)) == "2.000"


def observed(**changes: object) -> Observed:
    """Two machines from second 10 to 20, with twice the usage at the end."""
    began, ended = (
        Usage(at_s, used, used, used, used, {"supervisor": used / 10}) for at_s, used in ((10.0, 8), (20.0, 16))
    )
    return Observed(
        **{"members": [1, 2], "began": began, "ended": ended, "answered": [], "memory": {}, "killed": []} | changes  # type: ignore[arg-type]
    )


def lives(*lives: tuple[str, int, float, float, float]) -> list[Stamp]:
    """For each candidate, with its member: when it was sent, taken and measured for a second, and answered right then."""
    return [
        stamp
        for id_, member, sent_s, taken_s, measured_s in lives
        for stamp in (
            Stamp("measured", id_, measured_s, member, 1.0),
            Stamp("sent", id_, sent_s),
            Stamp("taken", id_, taken_s, member),
            Stamp("answered", id_, measured_s),
        )
    ]


def found(stamps: list[Stamp], plan: Plan | None = None, **changes: object) -> Finding:
    return figures.finding(plan or Plan(2, FakeDevice(wants=1), 10.0, stand_in=True), observed(**changes), iter(stamps))


def test_figures_are_of_the_time_when_all_machines_measured() -> None:
    told = found(lives(("a", 1, 8.0, 9.0, 10.5), ("b", 2, 9.0, 12.0, 14.0), ("c", 1, 9.5, 13.0, 14.0)))
    assert (told.trials, told.seconds) == (3, 10.0)
    assert told.trials_a_second == pytest.approx(0.25), "half of the first trial was before that time"
    assert told.idle == pytest.approx([1 - 0.15, 1 - 0.1])
    assert told.in_flight == pytest.approx((0.5 + 4.0 + 4.0) / 10)
    assert (told.redis_commands, told.redis_bytes, told.transactions, told.statements) == pytest.approx((8 / 3,) * 4)
    assert told.cpu_s == pytest.approx({"supervisor": 0.8 / 3})


def test_a_candidate_waits_for_a_machine_and_then_for_its_dispatch() -> None:
    told = found(lives(("a", 1, 8.0, 9.0, 11.0), ("b", 1, 9.0, 11.2, 12.0), ("c", 1, 12.5, 12.6, 14.0)))
    assert told.until_taken.count == 2
    assert told.until_taken.most_s == pytest.approx(2.2)
    assert (told.to_free_place.p50_s, told.to_free_place.most_s) == pytest.approx((0.1, 0.2))


def test_a_place_is_one_of_those_that_a_member_has() -> None:
    taken = [Stamp("taken", each, at_s, 1) for each, at_s in (("a", 10.0), ("b", 10.1), ("c", 12.5))]
    done = [Stamp("measured", "a", 12.0, 1), Stamp("answered", "a", 12.0)]
    told = found([*taken, *done], Plan(1, FakeDevice(wants=2), 10.0, stand_in=True))
    assert (told.to_free_place.count, told.to_free_place.most_s) == (1, 0.5)


def test_the_trials_number_is_the_place_of_its_answer() -> None:
    stamps = lives(("a", 1, 10.0, 10.0, 11.0), ("b", 2, 10.0, 10.0, 11.0))
    stamps += [Stamp("announced", "1", 11.25), Stamp("announced", "2", 11.5), Stamp("announced", "3", 12.0)]
    told = found(stamps, answered=["b", "a"]).until_announced
    assert (told.p50_s, told.p99_s, told.count) == (0.25, 0.5, 2)


def test_what_a_killed_machine_had_counts_until_another_one_measured_it() -> None:
    done = lives(("a", 1, 8.0, 9.0, 10.5), ("b", 2, 9.0, 12.0, 14.0))
    again = [Stamp("taken", "c", 11.0, 1), Stamp("taken", "c", 21.0, 2), Stamp("measured", "c", 22.0, 2, 1.0)]
    assert found(done + again, killed=[Killed(12.0, 1)]).elsewhere == [10.0]
    with pytest.raises(Broken, match="never measured"):
        found([*done, *again[:1]], killed=[Killed(12.0, 1)])


def test_without_trials_there_are_no_figures() -> None:
    with pytest.raises(Broken, match="No trial was measured in 10 s"):
        found([])


def test_the_table_says_which_goals_are_met() -> None:
    one, many = (
        found(
            lives(*((str(number), 1, 8.0, 9.0, 11.5) for number in range(machines - 1 or 1))),
            Plan(machines, FakeDevice(wants=1), 10.0, stand_in=True),
        )
        for machines in (1, 16)
    )
    told = {row[0]: row[1:] for row in report.goals(report.Findings(2, throughput=[one, many], killed=[]))}
    assert told["Trials a second with 16 machines against 1"] == ["≥ 14.0", "15.0", "yes"]
    assert told["Idle share of a machine with 16 machines, the idlest"] == ["≤ 10.0%", "100.0%", "no"]
    assert told["Dispatcher, trials a second in all"] == ["≥ 300", report.UNKNOWN, ""]
    assert "| … against one machine | 1.00 | 15.00 |" in report.markdown(report.Findings(2, throughput=[one, many]))


def test_a_span_has_what_overlaps() -> None:
    assert [Span(1.0, 2.0).overlap_s(*each) for each in ((0.0, 1.5), (1.5, 3.0), (2.5, 3.0))] == [0.5, 0.5, 0.0]


@pytest.mark.rare
@pytest.mark.tvm
def test_it_measures_a_small_pool() -> None:
    out = io.StringIO()
    sizes = ("--machines", "2", "--seconds", "1.5")
    call_command("bench_fleet", "--parts", "throughput", *sizes, "--json", stdout=out)
    (told,) = json.loads(out.getvalue())["throughput"]
    assert told["plan"]["machines"] == len(told["idle"]) == 2
    assert all(0 <= share < 1 for share in told["idle"])
    assert told["until_announced"]["count"] >= 2
    assert min(told["trials_a_second"], told["redis_commands"], told["redis_bytes"], told["statements"]) > 0
    assert {"supervisor", "members", "devices", "engine", "valkey", "postgresql"} <= told["cpu_s"].keys()
    assert told["memory"]["supervisor"] > 10**7


@pytest.mark.parametrize("option", ["--machines", "--seconds", "--runs", "--registered"])
def test_it_refuses_sizes_that_make_no_sense(option: str) -> None:
    with pytest.raises(CommandError, match="at least 1") as refused:
        call_command("bench_fleet", option, "0")
    assert refused.value.returncode == 2


def test_it_refuses_more_machines_than_the_server_takes_connections() -> None:
    with pytest.raises(CommandError, match="at most 200"):
        call_command("bench_fleet", "--machines", "201")
