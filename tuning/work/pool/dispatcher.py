"""Which candidates are out, who has them, and who may measure: a pool's bookkeeping, without processes, Redis or database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tuning.engines.wire.pools import equality
from tuning.engines.wire.pools.messages import Probe, Probed
from tuning.engines.wire.protocol import Candidate, Hold, Measured

from .channel import Alive, Answer, End, Go, Joined, Left, Said, Taken, Told

LOST_S = 8.0
"""A member that says nothing for this long is lost: four times in a row it didn't say that it is alive."""
MISSED_S = 5.0
"""A candidate that isn't in the queue and that nobody has said to have taken is sent again after this time."""
PROBES = 4
"""How many candidates machines are compared by."""
ROUNDS = 5
"""How often each of them is measured on each machine."""
CHECKS = 3
"""How often a machine is compared before it is left out: what differs once may be other people's load."""


class Outside(Protocol):
    """What the dispatcher has done."""

    def send(self, candidate: Candidate) -> None:
        """Put the candidate into the queue."""

    def tell(self, member: int, *messages: Told) -> None:
        """Say something to a member."""

    def answer(self, measured: Measured) -> None:
        """Pass an answer to the engine."""

    def slots(self, wanted: int) -> None:
        """Tell the engine how many candidates are wanted at once."""


@dataclass
class Member:
    """A machine that has joined."""

    key: int
    name: str
    wants: int
    heard_at: float
    state: str = "checking"
    """As in `PoolMember.State`."""
    reason: str = ""
    holds: set[str] = field(default_factory=set)
    trials: int = 0
    failed: int = 0
    rounds: dict[str, Sequence[float]] = field(default_factory=dict)
    """Of each probe that it measured."""
    answered: set[str] = field(default_factory=set)
    """The probes that it answered, with times or an error."""
    checks: int = 0
    """How often it was compared."""
    missing: set[str] = field(default_factory=set)
    """The candidates and probes that it should have and didn't know of when it last told."""
    differs: float | None = None
    noise: float | None = None

    @property
    def is_in(self) -> bool:
        return self.state in ("checking", "measuring")


@dataclass
class Out:
    """A candidate that is out."""

    candidate: Candidate
    sent_at: float
    taken: bool = False


class Dispatcher:
    """Called by two threads, which take turns by a lock of their own."""

    def __init__(self, outside: Outside, clock: Callable[[], float]) -> None:
        self.home: int | None = None
        """The member on the machine of the search."""
        self._outside = outside
        self._clock = clock
        self._held = False
        self._slots: int | None = None
        self._out: dict[str, Out] = {}
        self._probes: list[Probe] = []
        self._reference: Member | None = None
        """The first machine, which the others are compared with."""
        self.members: dict[int, Member] = {}
        self.sent_again = 0
        """How many candidates had to be sent a second time."""

    @property
    def out(self) -> int:
        """How many candidates are out."""
        return len(self._out)

    def hand_out(self, candidate: Candidate) -> None:
        """Have the candidate measured by whoever is free first."""
        self._out[candidate.id] = Out(candidate, self._clock())
        self._outside.send(candidate)

    def searching(self, *, on: bool) -> None:
        """Keep the machine of the search from measuring while it searches, which would disturb it."""
        if on != self._held:
            self._held = on
            if self.home in self.members and self.members[self.home].is_in:
                self._outside.tell(self.home, Hold(on))

    def heard(self, said: Said) -> None:
        """Take what a member has said."""
        if isinstance(said, Joined):
            self._joined(said)
            return
        if isinstance(said, Alive) and said.joined and said.member not in self.members:
            self._joined(said.joined)
        member = self.members.get(said.member)
        if isinstance(said, Answer) and isinstance(said.of, Measured):
            self._measured(member, said.of)  # It counts, whoever comes first.
        if member and member.is_in:
            member.heard_at = self._clock()
            self._heard_from(member, said)
        elif member and isinstance(said, Alive):  # It was cut off, and doesn't know that others have its candidates.
            self._outside.tell(member.key, End())

    def _heard_from(self, member: Member, said: Said) -> None:
        if isinstance(said, Alive) and said.joined:
            self._repeat(member, said)
        elif isinstance(said, Taken):
            self._taken(member, said.id)
        elif isinstance(said, Answer) and isinstance(said.of, Probed):
            self._probed(member, said.of)
        elif isinstance(said, Left):
            self._leave(member, "left", said.reason)

    def gone(self, key: int, state: str) -> None:
        """Its machine says that the member has ended."""
        if (member := self.members.get(key)) and member.is_in:
            self._leave(member, state, "")

    def look_after(self, waiting: int) -> None:
        """Find out who is lost, and send again what they had. `waiting` is the length of the queue."""
        now = self._clock()
        for member in list(self.members.values()):
            if member.is_in and now > member.heard_at + LOST_S:
                self._leave(member, "lost", f"It hasn't been heard from for {LOST_S:g} s.")
        missed = [one for one in self._out.values() if not one.taken and now > one.sent_at + MISSED_S]
        if not waiting:
            self._send_again(missed)

    def forgive(self) -> None:
        """Nobody could be heard for a while: from now on they have time again."""
        now = self._clock()
        for member in self.members.values():
            member.heard_at = now
        for one in self._out.values():
            one.sent_at = now

    # --- members

    def _joined(self, said: Joined) -> None:
        member = self.members[said.member] = Member(said.member, said.name, said.wants, self._clock())
        if member.key == self.home and self._held:
            self._outside.tell(member.key, Hold(held=True))
        if self._reference is None:
            self._admit_first(member)
            return
        self._compare(member)
        if self._checking() == [member] and not self._is_complete(self._reference):
            self._compare(self._reference)  # So far there was nobody to be compared with it.

    def _admit_first(self, member: Member) -> None:
        """There is nobody to compare it with."""
        self._reference, self._probes = member, []
        for each in self.members.values():
            each.rounds.clear()
            each.answered.clear()
        self._admit(member)

    def _admit(self, member: Member) -> None:
        member.state, member.reason = "measuring", ""
        self._outside.tell(member.key, Go())
        self._count_slots()

    def _leave(self, member: Member, state: str, reason: str) -> None:
        member.state, member.reason = state, reason
        self._outside.tell(member.key, End())
        self._send_again([self._out[one] for one in member.holds if one in self._out])
        member.holds.clear()
        self._count_slots()
        if member is self._reference and not self._is_complete(member):
            self._reference = None
            measuring = (one for one in self.members.values() if one.state == "measuring")
            if following := next(measuring, None) or next(iter(self._checking()), None):
                self._admit_first(following)

    def _count_slots(self) -> None:
        wanted = sum(member.wants for member in self.members.values() if member.state == "measuring")
        if wanted != self._slots:
            self._slots = wanted
            self._outside.slots(wanted)

    def _repeat(self, member: Member, said: Alive) -> None:
        """Say and send again what was lost on the way."""
        if member.state == "measuring" and not said.takes:
            self._outside.tell(member.key, Go())
        if member.key == self.home and said.held != self._held:
            self._outside.tell(member.key, Hold(self._held))
        asked = {
            probe.candidate.id: probe for probe in self._asked_of(member) if probe.candidate.id not in member.answered
        }
        missing = (member.holds | asked.keys()) - set(said.in_hand)
        lost = missing & member.missing  # What is missing for the first time may just be on its way.
        member.missing = missing - lost
        member.holds -= lost
        self._send_again([self._out[one] for one in lost if one in self._out])
        if again := [probe for one, probe in asked.items() if one in lost]:
            self._outside.tell(member.key, *again)

    def _checking(self) -> list[Member]:
        """Those that are to be compared before they measure."""
        return [one for one in self.members.values() if one.state == "checking"]

    def _asked_of(self, member: Member) -> Sequence[Probe]:
        """The probes that it was to measure."""
        is_compared = bool(self._checking()) if member is self._reference else member.state == "checking"
        return self._probes if is_compared and len(self._probes) == PROBES else ()

    # --- candidates

    def _taken(self, member: Member, candidate: str) -> None:
        if one := self._out.get(candidate):
            one.taken = True
            member.holds.add(candidate)

    def _measured(self, member: Member | None, measured: Measured) -> None:
        out = self._out.pop(measured.id, None)
        for each in self.members.values():
            each.holds.discard(measured.id)
        if out is None:  # Somebody else was faster.
            return
        self._outside.answer(measured)
        if out.candidate.again:
            return
        if member:
            member.trials += 1
            member.failed += measured.error_kind is not None
        if len(self._probes) < PROBES and measured.error_kind is None and not measured.short:
            self._probes.append(Probe(out.candidate, ROUNDS))
            if len(self._probes) == PROBES:
                for each in self.members.values():
                    self._compare(each)

    def _send_again(self, ones: Sequence[Out]) -> None:
        for one in ones:
            one.taken, one.sent_at = False, self._clock()
            self.sent_again += 1
            self._outside.send(one.candidate)

    # --- the check

    def _compare(self, member: Member) -> None:
        """Have it measure the probes that it is to measure, if any."""
        if probes := self._asked_of(member):
            self._outside.tell(member.key, *probes)

    def _is_complete(self, member: Member) -> bool:
        return len(self._probes) == PROBES and {probe.candidate.id for probe in self._probes} <= member.answered

    def _probed(self, member: Member, probed: Probed) -> None:
        member.answered.add(probed.id)
        if probed.run_secs:
            member.rounds[probed.id] = probed.run_secs
        if self._reference is None or not self._is_complete(self._reference):
            return
        if member is self._reference and not member.rounds:  # Nothing to compare by: other candidates may do.
            self._probes = []
            member.answered.clear()
            return
        for each in list(self.members.values()):
            if each.state == "checking" and self._is_complete(each):
                self._judge(each, self._reference)

    def _judge(self, member: Member, reference: Member) -> None:
        failed = [one for one in reference.rounds if one not in member.rounds]
        if failed:
            self._leave(
                member,
                "left_out",
                f"It couldn't measure {len(failed)} of the candidates that {reference.name} measured.",
            )
            return
        verdict = equality.compare({reference.name: reference.rounds, member.name: member.rounds}, reference.name)
        member.checks += 1
        member.differs, member.noise = verdict.differences[member.name], verdict.noise[member.name]
        reference.noise = verdict.noise[reference.name]
        if member.name not in verdict.left_out:
            self._admit(member)
        elif member.checks < CHECKS and (present := self._present(reference)):
            self._check_again(member, present)
        else:
            self._leave(
                member, "left_out", f"{told(member.differs, reference.name)}; at most {equality.LIMIT:.0%} would do."
            )

    def _present(self, reference: Member) -> Member | None:
        """The reference, or if it has left, another machine that was found equal to it."""
        measuring = (one for one in self.members.values() if one.state == "measuring")
        return reference if reference.is_in else next(measuring, None)

    def _check_again(self, member: Member, reference: Member) -> None:
        """Have both measure the candidates at the same time."""
        assert member.differs is not None
        member.reason = f"{told(member.differs, reference.name)}. Both are measured again."
        self._reference = reference
        for each in (member, reference):
            each.rounds.clear()
            each.answered.clear()
            self._compare(each)


def told(differs: float, reference: str) -> str:
    """How a machine differs from the one that it is compared with."""
    return f"It is {differs:.1%} slower than {reference}" if differs > 0 else f"{reference} is {-differs:.1%} slower"
