"""The tables of bench_fleet: measurements and goals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

import msgspec

from .figures import Finding, Times
from .registered import Page, Registered

UNKNOWN = "not recorded"
MOST = 16


class Goal(NamedTuple):
    """A bound for a figure: the least, unless it is the most."""

    title: str
    bound: float
    shown: str
    is_least: bool = False

    def row(self, value: float | None, machines: str) -> list[str]:
        """The goal, what was measured with so many machines, and whether it is met."""
        goal = ("≥ " if self.is_least else "≤ ") + self.shown.format(self.bound)
        if value is None:
            return [self.title.format(machines), goal, UNKNOWN, ""]
        met = value >= self.bound if self.is_least else value <= self.bound
        return [self.title.format(machines), goal, self.shown.format(value), "yes" if met else "no"]


RATIO = Goal(f"Trials a second with {MOST} machines against 1", 14, "{:.1f}", is_least=True)
IDLE = Goal("Idle share of a machine with {}, the idlest", 0.1, "{:.1%}")
ANNOUNCED = Goal("Result measured → at a browser's WebSocket with {}, p99 (ms)", 500, "{:.0f}")
DISPATCHED = Goal("Dispatcher, trials a second in all", 300, "{:.0f}", is_least=True)
ELSEWHERE = Goal("Machine killed → its candidates measured elsewhere, the last (s)", 15, "{:.1f}")


class Findings(msgspec.Struct):
    """What was measured; what wasn't is empty or None."""

    cores: int
    throughput: list[Finding] = []
    dispatcher: list[Finding] = []
    killed: list[Finding] = []
    registered: Registered | None = None


def markdown(found: Findings) -> str:
    """The goals, then the figures by the number of machines, then those of a site with many."""
    tables = [goals(found), by_machines(found.throughput, found.cores)]
    tables += [by_machines(found.dispatcher, found.cores)] if found.dispatcher else []
    tables += [many(found.registered)] if found.registered else []
    return "\n".join("\n".join(_lines(table)) + "\n" for table in tables if len(table) > 1)


def goals(found: Findings) -> list[list[str]]:
    """Each goal of the fleet with what was measured, and whether it is met."""
    at = {one.plan.machines: one for one in found.throughput}
    largest = found.throughput[-1] if found.throughput else None
    both = {1, MOST} <= at.keys()
    announced = largest.until_announced if largest else None
    values = {
        RATIO: at[MOST].trials_a_second / at[1].trials_a_second if both else None,
        IDLE: max(largest.idle) if largest else None,
        ANNOUNCED: 1e3 * announced.p99_s if announced and announced.count else None,
        DISPATCHED: max((one.trials_a_second for one in found.dispatcher), default=None),
        ELSEWHERE: max((each for one in found.killed for each in one.elsewhere), default=None),
    }
    machines = f"{largest.plan.machines} machines" if largest else "most machines"
    return [["", "Goal", "Measured", "Met"], *(goal.row(value, machines) for goal, value in values.items())]


def by_machines(found: Sequence[Finding], cores: int) -> list[list[str]]:
    """The header, then a row for each figure, with a column for each number of machines."""
    first = found[0] if found else None
    rows: list[tuple[str, Callable[[Finding], str]]] = [
        ("Engine", lambda one: "stand-in" if one.plan.stand_in else "real, replay-trace"),
        ("A device takes (s), and holds at once", lambda one: f"{one.plan.device.takes_s:g}, {one.plan.device.wants}"),
        ("Trials in the time (s)", lambda one: f"{one.trials:,} in {one.seconds:.0f}"),
        ("Trials a second", lambda one: f"{one.trials_a_second:,.1f}"),
        ("… against one machine", lambda one: _against(one, first)),
        ("Idle share of a machine: median, the idlest", lambda one: f"{median(one.idle):.1%}, {max(one.idle):.1%}"),
        ("Candidates out", lambda one: f"{one.in_flight:,.1f}"),
        ("Candidate at the supervisor → a member has it, with its wait for one: p50, p99 (ms)", _shown("until_taken")),
        ("… without that wait", _shown("to_free_place")),
        ("Result measured → at a browser's WebSocket: p50, p99 (ms)", _shown("until_announced")),
        ("Redis commands a trial", lambda one: f"{one.redis_commands:.1f}"),
        ("… and bytes (kB)", lambda one: f"{one.redis_bytes / 1e3:.1f}"),
        ("Statements of the supervisor a trial", lambda one: f"{one.statements:.1f}"),
        ("Transactions of the whole database a trial", lambda one: f"{one.transactions:.1f}"),
        ("CPU a trial (ms)", lambda one: f"{1e3 * sum(one.cpu_s.values()):.1f}"),
        ("… by process", _cpu),
        ("CPU used of all cores", lambda one: f"{sum(one.cpu_s.values()) * one.trials_a_second / cores:.0%}"),
        ("Memory of the supervisor, of a member, of its measuring process, of the web process (MB)", _memory),
    ]
    header = ["", *(f"{one.plan.machines} machine{'s' * (one.plan.machines > 1)}" for one in found)]
    return [header, *([title, *map(show, found)] for title, show in rows if found)]


def many(found: Registered) -> list[list[str]]:
    """A site with many machines and queued runs."""
    return [
        [
            f"{found.machines:,} machines, of which {found.busy:,} tune, and {found.queued:,} queued runs",
            "Median, slowest (ms)",
            "Queries",
            "HTML, compressed (kB)",
        ],
        ["Page Machines", *_page(found.machines_page)],
        ["Page of the run list", *_page(found.list_page)],
        ["Places of all queued runs", _slowest(found.places_s), "", ""],
        ["A worker's choice of the next run", _slowest(found.next_s), "", ""],
        [
            f"Memory of the web process: {found.web.at_first / 1e6:.0f} MB, then {found.web.after_pages / 1e6:.0f} MB",
            "",
            "",
            "",
        ],
    ]


def _page(page: Page) -> list[str]:
    return [_slowest(page.seconds), str(page.queries), f"{page.size / 1e3:,.0f}, {page.compressed / 1e3:,.0f}"]


def _slowest(seconds: Sequence[float]) -> str:
    return f"{1e3 * median(seconds):,.0f}, {1e3 * max(seconds):,.0f}"


def _against(one: Finding, first: Finding | None) -> str:
    if first is None or first.plan.machines != 1:
        return UNKNOWN
    return f"{one.trials_a_second / first.trials_a_second:.2f}"


def _shown(name: str) -> Callable[[Finding], str]:
    def show(one: Finding) -> str:
        found: Times = getattr(one, name)
        return f"{1e3 * found.p50_s:,.1f}, {1e3 * found.p99_s:,.1f}" if found.count else UNKNOWN

    return show


def _cpu(one: Finding) -> str:
    ordered = sorted(one.cpu_s.items(), key=lambda each: -each[1])
    return ", ".join(f"{role} {1e3 * used_s:.2f}" for role, used_s in ordered)


def _memory(one: Finding) -> str:
    sizes = (one.memory.get(role) for role in ("supervisor", "members", "devices", "web"))
    return ", ".join(UNKNOWN if size is None else f"{size / 1e6:.0f}" for size in sizes)


def _lines(cells: Sequence[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(row) + " |" for row in cells]
    return [lines[0], "|" + " --- |" * len(cells[0]), *lines[1:]]
