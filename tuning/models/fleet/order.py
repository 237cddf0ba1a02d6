"""Whose turn is next: a fair order of what waits, and how many come before each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple


class Waiting(NamedTuple):
    """A queued run, as far as its turn depends on it; the names are those of `Run`'s columns."""

    pk: int
    priority: int
    created_by: int | None
    queued_at: datetime
    device: str
    chosen_machine: int | None
    needs: int | None

    @property
    def kind(self) -> Kind:
        return Kind(self.device, self.chosen_machine, self.needs)


class Kind(NamedTuple):
    """What decides which machines may take a run. Thousands of queued runs are of a few kinds."""

    device: str
    chosen_machine: int | None
    needs: int | None


class Served(NamedTuple):
    """What people had so far."""

    live: Mapping[int | None, int]
    """By person, how many runs of theirs are being tuned."""
    last: Mapping[int | None, datetime]
    """By person, when a run of theirs was last tuned."""


def in_fair_order(waiting: Iterable[Waiting], served: Served) -> list[Waiting]:
    """What waits for the same machines, the next one first.

    A higher priority goes first. Within one, a run's turn comes after as many of each other person's runs as its own person has
    before it, live or queued; of equals, first comes whose person has had nothing for longest, then what was queued first. So fifty
    runs of one person keep another's first one waiting for a single one.
    """
    by_age = sorted(waiting, key=lambda one: (one.queued_at, one.pk))
    before: Counter[tuple[int, int | None]] = Counter()
    turns: list[tuple[int, int, float, int]] = []
    for place, one in enumerate(by_age):
        whose = (one.priority, one.created_by)
        last = served.last.get(one.created_by)
        turn = served.live.get(one.created_by, 0) + before[whose]
        turns.append((-one.priority, turn, last.timestamp() if last else 0.0, place))
        before[whose] += 1
    return [by_age[place] for *_, place in sorted(turns)]
