"""Machines as the page shows them: those that are equal together, each with what it does in a word, filtered."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tuning.models import Machine
from tuning.models.fleet.machine import tuned_by

from .listing import HOUR, MachineDict

VERIFYING, MEASURING = "verifying", "measuring"
"""Besides `Machine.State`: no run is tuned there, but a library verified, or runs measured side by side. To the API both are `tuning`."""
WORDS = {"compilation": VERIFYING, "side_by_side": MEASURING}
"""By the kind of work, what a machine does with that alone."""
STATES = ("tuning", VERIFYING, MEASURING, "idle", "draining", "drained", "waiting", "lost")
"""In the order of the page."""


@dataclass(frozen=True)
class Wanted:
    """Conditions that all must hold; an empty one is none."""

    q: str = ""
    """A part of the name."""
    state: str = ""
    cpu: str = ""

    def has(self, machine: MachineDict) -> bool:
        return (
            self.q.lower() in machine["name"].lower()
            and self.state in ("", doing(machine))
            and self.cpu in ("", machine["cpu"] or UNKNOWN)
        )


UNKNOWN = "not known yet"
"""In place of a CPU."""


@dataclass(frozen=True)
class Usage:
    """Shares of a machine's processors, 0 to 100, that our processes and others used in the last seconds."""

    ours: float
    others: float
    cores: float
    """How many processors both used."""
    cpus: int

    @property
    def both(self) -> float:
        return self.ours + self.others


@dataclass(frozen=True)
class Row:
    """A machine of the page."""

    machine: MachineDict
    doing: str
    usage: Usage | None
    """None if it wasn't measured."""
    tuned: float
    """Percent of the last hour in which its devices tuned, 0 to 100."""

    @property
    def can_measure_again(self) -> bool:
        """Whether a roofline of it is known that nobody has asked to be measured again."""
        return any(one["asked_at"] is None for one in self.machine["rooflines"])


@dataclass(frozen=True)
class Group:
    """Machines with the same CPU, cores and versions: what was measured on one can be compared with any other of them."""

    cpu: str
    cores: int | None
    versions: dict[str, str]
    rows: Sequence[Row]


def doing(machine: MachineDict) -> str:
    """One of `STATES`."""
    if machine["state"] != Machine.State.TUNING:
        return machine["state"]
    found = {WORDS.get(work["kind"], machine["state"]) for work in machine["work"]}
    return min(found, key=STATES.index, default=machine["state"])


def counts(machines: Iterable[MachineDict]) -> dict[str, int]:
    """How many machines do what, without what none does."""
    found = Counter(map(doing, machines))
    return {state: found[state] for state in STATES if found[state]}


def grouped(machines: Iterable[MachineDict]) -> list[Group]:
    """The largest group first; machines stay in their order."""
    alike: dict[tuple[object, ...], list[MachineDict]] = defaultdict(list)
    for one in machines:
        alike[(one["cpu"], one["cores"], *sorted(tuned_by(one["versions"]).items()))].append(one)
    groups = [
        Group(them[0]["cpu"] or UNKNOWN, them[0]["cores"], tuned_by(them[0]["versions"]), [*map(_row, them)])
        for them in alike.values()
    ]
    return sorted(groups, key=lambda group: (-len(group.rows), group.cpu))


def _row(machine: MachineDict) -> Row:
    possible_s = HOUR.total_seconds() * max(1, len(machine["devices"]))
    tuned = min(100.0, 100 * machine["last_hour"]["tuned_s"] / possible_s)
    return Row(machine, doing(machine), _usage(machine), tuned)


def _usage(machine: MachineDict) -> Usage | None:
    ours, others, cpus = (machine["load"].get(name) for name in ("ours_cores", "others_cores", "cpus"))
    if ours is None or others is None or not cpus or machine["state"] == Machine.State.LOST:
        return None
    of_ours = min(100.0, 100 * ours / cpus)
    return Usage(of_ours, min(100.0 - of_ours, 100 * others / cpus), ours + others, cpus)
