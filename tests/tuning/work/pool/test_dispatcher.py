"""A pool's bookkeeping with a clock of the test's own: who gets what, who is lost, who may measure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest

from tuning.engines.wire.pools.messages import Probe, Probed
from tuning.engines.wire.protocol import Candidate, Hold, Measured
from tuning.work.pool.channel import Alive, Answer, End, Go, Joined, Left, Taken
from tuning.work.pool.dispatcher import CHECKS, LOST_S, MISSED_S, PROBES, ROUNDS, Dispatcher


class World:
    """What the dispatcher has done, and a clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.queue: list[str] = []
        self.told: dict[int, list[Any]] = {}
        self.answers: list[str] = []
        self.wanted: list[int] = []
        self.pool = Dispatcher(self, lambda: self.now)
        self._numbers = count(1)

    def send(self, candidate: Candidate) -> None:
        self.queue.append(candidate.id)

    def tell(self, member: int, *messages: Any) -> None:
        self.told.setdefault(member, []).extend(messages)

    def answer(self, measured: Measured) -> None:
        self.answers.append(measured.id)

    def slots(self, wanted: int) -> None:
        self.wanted.append(wanted)

    # --- what members do

    def join(self, *members: int) -> None:
        for member in members:
            self.pool.heard(Joined(member, f"lab-{member}", 3))

    def hand_out(self, how_many: int) -> list[str]:
        made = [f"c{next(self._numbers)}" for _ in range(how_many)]
        for one in made:
            self.pool.hand_out(Candidate(one, 0, b"module", []))
        return made

    def take(self, member: int) -> str:
        taken = self.queue.pop(0)
        self.pool.heard(Taken(member, taken))
        return taken

    def measure(self, member: int, candidate: str, **values: Any) -> None:
        measured = {"run_secs": [1e-3]} | values
        self.pool.heard(Answer(member, Measured(id=candidate, machine=f"lab-{member}", **measured)))

    def probe(self, member: int, seconds: Sequence[float], **values: Any) -> None:
        for probe in [one for one in self.told[member] if isinstance(one, Probe)][-PROBES:]:
            answer = values or {"run_secs": seconds}
            self.pool.heard(Answer(member, Probed(id=probe.candidate.id, machine=f"lab-{member}", **answer)))

    def pass_by(self, seconds: float, *alive: int) -> None:
        for _ in range(round(seconds)):
            self.now += 1
            for member in alive:
                self.pool.heard(Alive(member))
            self.pool.look_after(len(self.queue))

    def state(self, member: int) -> str:
        return self.pool.members[member].state

    def checked(self, *members: int) -> None:
        """They are found to be equal to the first one, by the first candidates."""
        self.join(*members)
        for one in self.hand_out(PROBES):
            assert self.take(members[0]) == one
            self.measure(members[0], one)
        for member in members:
            self.probe(member, [1e-3] * ROUNDS)


@pytest.fixture
def world() -> World:
    return World()


def test_the_first_machine_measures_at_once_and_is_what_others_are_compared_with(world: World) -> None:
    world.join(1, 2)
    assert (world.told, world.wanted) == ({1: [Go()]}, [3])
    made = world.hand_out(PROBES)
    for one in made:
        world.take(1)
        world.measure(1, one)
    assert [probe.candidate.id for probe in world.told[2]] == made
    assert world.told[1][1:] == world.told[2], "the first one measures them again, in full"
    world.probe(1, [1.0e-3] * ROUNDS)
    assert world.state(2) == "checking"
    world.probe(2, [1.01e-3] * ROUNDS)
    assert world.state(2) == "measuring"
    assert world.told[2][-1] == Go()
    assert world.wanted == [3, 6]
    assert world.pool.members[2].differs == pytest.approx(0.01)


def test_a_machine_alone_measures_nothing_twice_until_another_joins(world: World) -> None:
    world.join(1)
    made = world.hand_out(PROBES)
    for one in made:
        world.take(1)
        world.measure(1, one)
    for _ in range(3):
        world.pool.heard(Alive(1, joined=Joined(1, "lab-1", 3), takes=True))
    assert world.told[1] == [Go()]
    world.join(2, 3)
    assert [probe.candidate.id for probe in world.told[1][1:]] == made
    assert world.told[1][1:] == world.told[2] == world.told[3]
    for member in (1, 2):
        world.probe(member, [1e-3] * ROUNDS)
    assert world.state(2) == "measuring"
    told = len(world.told[1])
    world.join(4)
    assert len(world.told[1]) == told, "it was measured already"


def test_the_reference_is_no_trial_of_a_machine_and_machines_arent_compared_by_it(world: World) -> None:
    world.join(1, 2)
    again = Candidate("c1-again-1", 0, b"module", [], again=True)
    world.pool.hand_out(again)
    assert world.take(1) == again.id
    world.measure(1, again.id)
    assert (world.answers, world.pool.out) == ([again.id], 0)
    assert (world.pool.members[1].trials, world.pool.members[1].failed) == (0, 0)
    made = world.hand_out(PROBES)
    for one in made:
        world.take(1)
        world.measure(1, one)
    assert [probe.candidate.id for probe in world.told[2]] == made
    assert world.pool.members[1].trials == PROBES


def test_the_reference_of_a_lost_machine_goes_to_another_one(world: World) -> None:
    world.checked(1, 2)
    world.pool.hand_out(Candidate("c1-again-1", 0, b"module", [], again=True))
    world.take(1)
    world.pass_by(LOST_S + 1, 2)
    assert world.queue == ["c1-again-1"]


def test_a_machine_that_differs_is_left_out_and_it_is_said_by_how_much(world: World) -> None:
    world.checked(1, 2)
    world.join(3)
    for _ in range(CHECKS - 1):
        world.probe(3, [1.08e-3] * ROUNDS)
        assert world.state(3) == "checking"
        world.probe(1, [1e-3] * ROUNDS)
    world.probe(3, [1.08e-3] * ROUNDS)
    member = world.pool.members[3]
    assert (member.state, member.reason) == ("left_out", "It is 8.0% slower than lab-1; at most 5% would do.")
    assert world.told[3][-1] == End()
    assert world.wanted[-1] == 6


def test_a_machine_that_differed_for_a_moment_is_compared_again_by_new_measurements_of_both(world: World) -> None:
    world.checked(1, 2)
    world.join(3)
    world.probe(3, [0.5e-3] * ROUNDS)
    assert world.pool.members[3].reason == "lab-1 is 100.0% slower. Both are measured again."
    assert world.told[1][-PROBES:] == world.told[3][-PROBES:]
    world.probe(1, [0.5e-3] * ROUNDS)
    world.probe(3, [0.5e-3] * ROUNDS)
    member = world.pool.members[3]
    assert (member.state, member.reason, member.differs) == ("measuring", "", 0.0)


def test_if_the_first_machine_has_left_one_that_was_equal_is_measured_again_in_its_place(world: World) -> None:
    world.checked(1, 2)
    world.pool.heard(Left(1, ""))
    world.join(3)
    world.probe(3, [0.5e-3] * ROUNDS)
    world.probe(3, [0.5e-3] * ROUNDS)
    assert world.state(3) == "checking"
    world.probe(2, [0.5e-3] * ROUNDS)
    assert world.state(3) == "measuring"


def test_a_machine_cannot_measure_again_with_nobody(world: World) -> None:
    world.checked(1, 2)
    for member in (1, 2):
        world.pool.heard(Left(member, ""))
    world.join(3)
    world.probe(3, [1.08e-3] * ROUNDS)
    assert world.state(3) == "left_out"


def test_a_machine_that_cannot_measure_what_the_first_one_measured_is_left_out(world: World) -> None:
    world.checked(1)
    world.join(2)
    world.probe(1, [1e-3] * ROUNDS)
    world.probe(2, [], error_kind="run", error="illegal instruction")
    assert world.pool.members[2].reason == f"It couldn't measure {PROBES} of the candidates that lab-1 measured."


def test_failed_and_short_measurements_are_no_probes(world: World) -> None:
    world.join(1, 2)
    failed, short, *valid = world.hand_out(2 + PROBES)
    world.measure(1, failed, run_secs=[], error_kind="build", error="no")
    world.measure(1, short, short=True)
    for one in valid:
        world.measure(1, one)
    assert [told.candidate.id for told in world.told[2] if isinstance(told, Probe)] == valid
    assert (world.pool.members[1].trials, world.pool.members[1].failed) == (2 + PROBES, 1)


def test_if_the_first_machine_is_lost_before_the_check_another_one_takes_its_place(world: World) -> None:
    world.join(1, 2)
    world.pass_by(LOST_S + 1, 2)
    assert (world.state(1), world.state(2)) == ("lost", "measuring")
    world.join(3)
    for one in world.hand_out(PROBES):
        world.take(2)
        world.measure(2, one)
    world.probe(2, [1e-3] * ROUNDS)
    world.probe(3, [1e-3] * ROUNDS)
    assert world.state(3) == "measuring"


def test_what_a_lost_machine_had_is_sent_again_once_and_the_first_answer_counts(world: World) -> None:
    world.checked(1, 2)
    made = world.hand_out(3)
    first, second = world.take(1), world.take(2)
    world.pass_by(LOST_S + 1, 2)
    assert world.state(1) == "lost"
    assert world.queue == [made[2], first], "not what is waiting anyway, and not what the other one has"
    assert world.wanted[-1] == 3
    assert world.take(2) == made[2]
    assert world.take(2) == first
    for one in (second, made[2], first):
        world.measure(2, one)
    world.measure(1, first)  # It was only cut off.
    assert world.answers[PROBES:] == [second, made[2], first]
    assert world.pool.members[1].trials == PROBES
    assert world.pool.out == 0


def test_a_lost_machine_that_comes_back_is_told_to_leave_and_its_answer_counts_if_it_is_first(world: World) -> None:
    world.checked(1, 2)
    world.hand_out(1)
    taken = world.take(1)
    world.pass_by(LOST_S + 1, 2)
    world.measure(1, taken)
    assert world.answers[-1] == taken
    del world.told[1][:]
    world.pool.heard(Alive(1))
    assert world.told[1] == [End()]
    assert world.state(1) == "lost"


def test_a_candidate_that_got_lost_with_the_queue_is_sent_again(world: World) -> None:
    world.checked(1)
    made = world.hand_out(2)
    world.queue.clear()
    world.pass_by(MISSED_S, 1)
    assert not world.queue
    world.pass_by(1, 1)
    assert world.queue == made
    world.pass_by(MISSED_S + 1, 1)
    assert world.queue == made, "they are waiting: nothing is missed"


def test_after_an_outage_everybody_has_time_again(world: World) -> None:
    world.checked(1, 2)
    world.now += 10 * LOST_S
    world.pool.forgive()
    world.pool.look_after(0)
    assert world.state(1) == world.state(2) == "measuring"
    world.pass_by(LOST_S + 1, 2)
    assert (world.state(1), world.state(2)) == ("lost", "measuring")


def test_a_machine_leaves_with_nothing_in_hand_or_what_it_had_goes_to_others(world: World) -> None:
    world.checked(1, 2)
    made = world.hand_out(1)
    world.take(2)
    world.pool.heard(Left(2, "The disk is full."))
    assert (world.state(2), world.pool.members[2].reason) == ("left", "The disk is full.")
    assert world.queue == made
    world.pool.gone(2, "left")
    assert world.queue == made, "not twice"


def test_the_machine_of_the_search_waits_while_it_searches(world: World) -> None:
    world.pool.home = 1
    world.pool.searching(on=True)
    world.join(1, 2)
    assert world.told[1][0] == Hold(held=True), "it joined meanwhile"
    world.pool.searching(on=True)
    world.pool.searching(on=False)
    assert [told for told in world.told[1] if isinstance(told, Hold)] == [Hold(held=True), Hold(held=False)]
    assert 2 not in world.told


def stands(world: World, member: int, *, takes: bool = True, held: bool = False, in_hand: Sequence[str] = ()) -> None:
    """It says twice in a row how it stands."""
    for _ in range(2):
        world.pool.heard(Alive(member, Joined(member, f"lab-{member}", 3), takes, held, list(in_hand)))


def test_an_answer_that_got_lost_is_missed_and_its_candidate_sent_again(world: World) -> None:
    world.checked(1)
    kept, lost = world.hand_out(2)
    assert [world.take(1), world.take(1)] == [kept, lost]
    stands(world, 1, in_hand=[kept])
    assert world.queue == [lost]
    stands(world, 1, in_hand=[kept])
    assert world.queue == [lost], "it is missed once"
    assert world.take(1) == lost
    world.measure(1, lost)
    assert world.answers[-1] == lost


def test_what_a_machine_was_told_in_vain_is_told_again(world: World) -> None:
    world.pool.home = 1
    world.checked(1, 2)
    world.pool.searching(on=True)
    world.join(3)
    for told in world.told.values():
        del told[:]
    stands(world, 1, takes=False)
    assert world.told[1] == [Go(), Hold(held=True)] * 2
    stands(world, 3, takes=False)
    assert [probe.candidate.id for probe in world.told[3]] == world.answers[:PROBES]
    world.told[3].clear()
    stands(world, 3, takes=False, in_hand=world.answers[:PROBES])
    assert world.told[3] == [], "it has them now"


def test_a_machine_whose_first_word_got_lost_is_a_member_all_the_same(world: World) -> None:
    world.pool.heard(Alive(1))
    assert world.pool.members == {}, "it can't measure yet"
    stands(world, 1, takes=False)
    assert world.state(1) == "measuring"
    assert world.wanted == [3]
