"""Where a queued run may go, how many come before it there, and what it waits for, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import DurationField, ExpressionWrapper, F
from django.db.models.functions import Now

from tuning.wording import duration

from .machine import LOST, Machine
from .needs import Needs
from .order import Kind, Served, Waiting, in_fair_order

SHARED = "rpc:"
"""Begins the names of devices that don't belong to a machine but to the whole site."""


def is_shared(device: str) -> bool:
    """Whether a device belongs to no machine, so that any may measure on it."""
    return device.startswith(SHARED)


class Place(NamedTuple):
    """How many runs come before a queued one, and what it waits for."""

    ahead: int
    waits: str
    """Such as `3 runs ahead on lab-2`, or `waits until lab-2 is back: it was lost 5 min ago`."""


NEXT = Place(0, "next on this device")


class Fleet:
    """The machines as they are now, and what each kind of run may be taken by."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        silent = ExpressionWrapper(Now() - F("heartbeat_at"), output_field=DurationField())
        rows: Any = list(Machine.objects.annotate(silent=silent))
        self.machines = {row.pk: row for row in rows}
        self.able = {row.pk for row in rows if row.silent <= LOST and not (row.is_draining or row.trouble)}
        needs = {kind.needs for kind in kinds if kind.needs is not None}
        self._needs = Needs.objects.in_bulk(needs)

    def candidates(self, kind: Kind) -> frozenset[int]:
        """The machines that fit, whether or not they can take anything right now."""
        needs = self._needs.get(kind.needs) if kind.needs is not None else None
        alone = len(self.machines) == 1
        return frozenset(
            row.pk
            for row in self.machines.values()
            if kind.chosen_machine in (None, row.pk)
            and (is_shared(kind.device) or kind.device in row.devices)
            and (needs is None or alone or needs.met_by(row))
        )

    def names(self, keys: Iterable[int]) -> list[str]:
        return sorted(self.machines[key].name for key in keys)


def places(
    waiting: Sequence[Waiting], live: Sequence[tuple[str, int | None, int | None]], last: Mapping[int | None, datetime]
) -> dict[int, Place]:
    """By the key of each queued run, its place.

    `live`: device, machine and person of each run that is being tuned; `last`: by person, when a run of theirs was last tuned.
    """
    kinds = {one.kind for one in waiting}
    fleet = Fleet(kinds)
    candidates = {kind: fleet.candidates(kind) for kind in kinds}
    ahead = {
        kind: sum(_holds(device, machine, kind, candidates[kind]) for device, machine, _ in live) for kind in kinds
    }
    words = {kind: _Words(fleet, kind, candidates[kind]) for kind in kinds}
    heavier = _heavier(Counter(one.kind for one in waiting), candidates)
    placed: Counter[Kind] = Counter()
    found: dict[int, Place] = {}
    # In the order of all: that of each machine may differ a little, where it takes only some of what waits.
    for one in in_fair_order(waiting, Served(Counter(person for *_, person in live), last)):
        kind = one.kind
        before = ahead[kind] + sum(placed[other] for other in heavier[kind])
        found[one.pk] = Place(before, words[kind].of(before))
        placed[kind] += 1
        for other in (kind, *heavier[kind]):
            ahead[other] += 1
    return found


def _heavier(waiting: Mapping[Kind, int], candidates: Mapping[Kind, frozenset[int]]) -> dict[Kind, list[Kind]]:
    """By kind, those of which more runs wait and that compete with it.

    Of two kinds, only the runs of the lighter one look at the other. Else each of thousands that may go anywhere would look at all
    the kinds that may go to one machine only.
    """
    ordered = sorted(waiting, key=lambda kind: waiting[kind])
    return {
        kind: [other for other in ordered[place + 1 :] if _meet(kind, other, candidates)]
        for place, kind in enumerate(ordered)
    }


def _meet(one: Kind, other: Kind, candidates: Mapping[Kind, frozenset[int]]) -> bool:
    """Whether runs of two kinds wait for the same device of some machine."""
    if one.device != other.device:
        return False
    mine, theirs = candidates[one], candidates[other]
    return is_shared(one.device) or bool(mine & theirs) or not (mine or theirs)


def _holds(device: str, machine: int | None, kind: Kind, candidates: frozenset[int]) -> bool:
    """Whether a live run is where a run of the kind could be."""
    if device != kind.device:
        return False
    return is_shared(device) or machine is None or machine in candidates


class _Words:
    """What a run of one kind waits for; asked for each of thousands of runs."""

    def __init__(self, fleet: Fleet, kind: Kind, candidates: frozenset[int]) -> None:
        self.where = _where(fleet, kind, candidates)
        anybody = is_shared(kind.device) and kind.chosen_machine is None
        self.trouble = None if anybody else _trouble(fleet, candidates)

    def of(self, ahead: int) -> str:
        if self.trouble:
            return self.trouble
        if ahead == 0:
            return f"next on {self.where}"
        return f"{ahead:,} {'run' if ahead == 1 else 'runs'} ahead on {self.where}"


def _where(fleet: Fleet, kind: Kind, candidates: frozenset[int]) -> str:
    if is_shared(kind.device) or len(fleet.machines) <= 1 or not candidates:
        return "this device"
    names = fleet.names(candidates & fleet.able or candidates)
    return names[0] if len(names) == 1 else f"{len(names)} machines"


def _trouble(fleet: Fleet, candidates: frozenset[int]) -> str | None:
    """Why nobody can take such a run now; None if somebody can, or if no machine is known at all."""
    if candidates & fleet.able or not fleet.machines:
        return None
    if not candidates:
        return f"no machine that joined can run its target: there are {all_described(fleet.machines.values())}"
    reasons = [_reason(fleet.machines[key]) for key in candidates]
    return "waits until " + ", or until ".join(sorted(reasons)[:3])


def _reason(row: Any) -> str:
    """What must happen so that the machine takes work again."""
    if row.trouble and row.is_full and row.silent <= LOST:
        return f"{row.name} has space again: {row.trouble}"
    if row.trouble and row.silent <= LOST:
        return f"{row.name} fits the site: {row.trouble}"
    if row.silent > LOST:
        return f"{row.name} is back: it was lost {duration(row.silent.total_seconds())} ago"
    return f"{row.name} takes work again: it is being drained"


NAMED = 3
"""As many machines of a kind are named; of more, the first and how many there are."""


def described(machine: Machine) -> str:
    """A machine in a few words: `lab-1 (znver4, 16 cores, cuda:0)`."""
    return f"{machine.name} ({_kind(machine)})"


def all_described(machines: Iterable[Machine]) -> str:
    """Machines in few words, even if there are hundreds: `lab-1 and 63 more (znver4, 16 cores), lab-65 (znver4, 8 cores)`."""
    kinds: dict[str, list[str]] = {}
    for machine in machines:
        kinds.setdefault(_kind(machine), []).append(machine.name)
    return ", ".join(f"{_several(names)} ({kind})" for kind, names in kinds.items()) or "none"


def _several(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= NAMED else f"{names[0]} and {len(names) - 1} more"


def _kind(machine: Machine) -> str:
    cores = f"{machine.cores} {'core' if machine.cores == 1 else 'cores'}"
    known = (machine.cpu, cores) if machine.cores else ("CPU not known yet",)
    return ", ".join((*known, *(name for name in machine.devices if name != "cpu")))
