"""What follows from the stamps of a run. No processes and no database here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from tests.benchmarks.engine.sides import Broken
from tests.benchmarks.web.questions import Answers

from .observing import Killed, Observed, Plan
from .stamps import Stamp


class Span(NamedTuple):
    """A stretch of time, by the machine's monotonic clock."""

    began_s: float
    ended_s: float

    @property
    def length_s(self) -> float:
        return self.ended_s - self.began_s

    def has(self, at_s: float | None) -> bool:
        return at_s is not None and self.began_s <= at_s < self.ended_s

    def overlap_s(self, began_s: float, ended_s: float) -> float:
        """How much of the time between these is in the span."""
        return max(0.0, min(ended_s, self.ended_s) - max(began_s, self.began_s))


class Done(NamedTuple):
    """A member did something with a candidate. `took_s`: how long its device measured."""

    at_s: float
    member: int
    took_s: float


@dataclass
class History:
    """What happened to a candidate. Others may take it and measure it again if a machine dies."""

    sent_s: float | None = None
    taken: list[Done] = field(default_factory=list)
    measured: list[Done] = field(default_factory=list)
    answered_s: float | None = None
    announced_s: float | None = None


class Times(msgspec.Struct, frozen=True):
    """Percentiles by nearest rank, in seconds, and the number of values; 0 if there is none."""

    p50_s: float
    p99_s: float
    most_s: float
    count: int


class Finding(msgspec.Struct, frozen=True):
    """A run in the time when all its machines measured. Costs are per trial."""

    plan: Plan
    seconds: float
    trials: int
    trials_a_second: float
    """A trial that is measured across the beginning or the end of that time counts in part."""
    idle: list[float]
    """The share of the time in which a member's device measured nothing, of each member."""
    in_flight: float
    """How many candidates were out, on average."""
    until_taken: Times
    """From the supervisor's having a candidate to a member's having it, with the wait for a free machine."""
    to_free_place: Times
    """From when there are both a candidate and a free place for one in a member, until it has one."""
    until_announced: Times
    """From a member's having an answer to a watcher's having the trial."""
    redis_commands: float
    redis_bytes: float
    """Both ways."""
    transactions: float
    """Of the whole database."""
    statements: float
    """Of the supervisor."""
    cpu_s: dict[str, float]
    """By role: seconds of CPU a trial."""
    memory: dict[str, int]
    """By role: bytes of a process."""
    elsewhere: list[float]
    """For each candidate that a killed machine had: seconds until another one had measured it."""


def finding(plan: Plan, observed: Observed, stamps: Iterable[Stamp]) -> Finding:
    """The figures of a run. Raises `Broken` if it had no trial."""
    began, ended = observed.began, observed.ended
    span = Span(began.at_s, ended.at_s)
    known = histories(stamps, observed.answered)
    trials = sum(span.has(one.answered_s) for one in known.values())
    if not trials:
        raise Broken(f"No trial was measured in {span.length_s:g} s.")
    each = 1 / trials
    return Finding(
        plan=plan,
        seconds=span.length_s,
        trials=trials,
        trials_a_second=rate(known.values(), span),
        idle=[idle(known.values(), member, span) for member in observed.members],
        in_flight=in_flight(known.values(), span),
        until_taken=times(until_taken(known.values(), span)),
        to_free_place=times(to_free_place(known.values(), plan.device.wants, span)),
        until_announced=times(until_announced(known.values(), span)),
        redis_commands=each * (ended.redis_commands - began.redis_commands),
        redis_bytes=each * (ended.redis_bytes - began.redis_bytes),
        transactions=each * (ended.transactions - began.transactions),
        statements=each * (ended.statements - began.statements),
        cpu_s={role: each * (used_s - began.cpu_s.get(role, 0.0)) for role, used_s in ended.cpu_s.items()},
        memory=observed.memory,
        elsewhere=[each_s for killed in observed.killed for each_s in elsewhere(known.values(), killed)],
    )


def histories(stamps: Iterable[Stamp], answered: Sequence[str]) -> dict[str, History]:
    """By candidate; `answered` has them in the order of their trials, whose numbers begin with 1."""
    found: dict[str, History] = defaultdict(History)
    for stamp in stamps:
        if stamp.what == "announced":
            number = int(stamp.id)
            if number <= len(answered):
                found[answered[number - 1]].announced_s = stamp.at_s
            continue
        one = found[stamp.id]
        if stamp.what == "sent":
            one.sent_s = stamp.at_s
        elif stamp.what == "answered":
            one.answered_s = stamp.at_s
        else:
            done = one.taken if stamp.what == "taken" else one.measured
            done.append(Done(stamp.at_s, stamp.member, stamp.took_s))
    for one in found.values():
        one.taken.sort()
        one.measured.sort()
    return dict(found)


def times(values: Iterable[float]) -> Times:
    """Their percentiles."""
    found = Answers("", list(values), 0)
    if not found.ms:
        return Times(0.0, 0.0, 0.0, 0)
    return Times(found.at(0.5), found.at(0.99), max(found.ms), len(found.ms))


def rate(known: Iterable[History], span: Span) -> float:
    """Trials a second. One whose measurement the span cuts counts by the part that is in it."""
    first = [one.measured[0] for one in known if one.measured]
    shares = (
        span.overlap_s(each.at_s - each.took_s, each.at_s) / each.took_s if each.took_s else span.has(each.at_s)
        for each in first
    )
    return sum(shares) / span.length_s


def idle(known: Iterable[History], member: int, span: Span) -> float:
    """The share of the span in which the member's device measured nothing."""
    done = [each for one in known for each in one.measured if each.member == member]
    return 1 - sum(span.overlap_s(each.at_s - each.took_s, each.at_s) for each in done) / span.length_s


def in_flight(known: Iterable[History], span: Span) -> float:
    """How many candidates were out, averaged over the span."""
    forever = span.ended_s
    out = [(one.sent_s, forever if one.answered_s is None else one.answered_s) for one in known if one.sent_s]
    return sum(span.overlap_s(*each) for each in out) / span.length_s


def until_taken(known: Iterable[History], span: Span) -> Iterator[float]:
    """For each candidate that was first taken in the span."""
    for one in known:
        if one.sent_s is not None and one.taken and span.has(one.taken[0].at_s):
            yield one.taken[0].at_s - one.sent_s


def to_free_place(known: Iterable[History], places: int, span: Span) -> Iterator[float]:
    """For each candidate that took the place of another one in the span.

    A member has so many places. When they are taken, each answer frees the place of the next one.
    """
    taken: dict[int, list[tuple[float, float]]] = defaultdict(list)
    freed: dict[int, list[float]] = defaultdict(list)
    for one in known:
        for each in one.taken:
            taken[each.member].append((each.at_s, one.sent_s or 0.0))
        for each in one.measured:
            freed[each.member].append(each.at_s)
    for member, later in taken.items():
        # A run is stopped with candidates in hand, so there are fewer answers.
        for (at_s, sent_s), freed_s in zip(sorted(later)[places:], sorted(freed[member]), strict=False):
            if span.has(at_s):
                yield max(0.0, at_s - max(sent_s, freed_s))


def until_announced(known: Iterable[History], span: Span) -> Iterator[float]:
    """For each trial that was measured in the span."""
    for one in known:
        if one.measured and one.announced_s is not None and span.has(one.measured[0].at_s):
            yield one.announced_s - one.measured[0].at_s


def elsewhere(known: Iterable[History], killed: Killed) -> Iterator[float]:
    """For each candidate that the killed machine had in hand: how long it took until another one had measured it.

    Raises `Broken` if one was never measured.
    """
    for one in known:
        had = any(each.member == killed.member and each.at_s <= killed.at_s for each in one.taken)
        done = [each for each in one.measured if each.member == killed.member]
        if had and not done:
            again = [each.at_s for each in one.measured if each.at_s > killed.at_s]
            if not again:
                raise Broken("A candidate of a killed machine was never measured.")
            yield min(again) - killed.at_s
