"""Filter the list of runs, quickly even if there are thousands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, time, timezone
from functools import cached_property, reduce
from operator import or_
from typing import Any, Literal, get_args

from django.contrib.auth.models import User
from django.db.models import Count, Exists, F, Max, Min, OuterRef, Q

from tuning.models import Benchmark, Network, Project, Run, RunQuerySet, Tag, Trial, seen_by
from tuning.validation import Invalid, day

RunOrder = Literal[
    "-created_at",
    "created_at",
    "name",
    "-name",
    "status",
    "-status",
    "trials_done",
    "-trials_done",
    "trials_failed",
    "-trials_failed",
    "estimated_latency_s",
    "-estimated_latency_s",
]
Show = Literal["current", "archived", "deleted"]
LONGEST = 200
"""Characters in a search."""


@dataclass(frozen=True)
class RunFilter:
    """Conditions that all must hold: every tag, but any of the statuses. An empty value is no condition."""

    order: RunOrder = "-created_at"
    q: str = ""
    """Words in the name of the run or its network, or in its notes."""
    status: tuple[str, ...] = ()
    network: str = ""
    """The network's name."""
    target: str = ""
    """The target's fingerprint."""
    tag: tuple[str, ...] = ()
    since: str = ""
    """The first day of the launch in UTC, such as 2026-11-21."""
    until: str = ""
    """The last day of the launch."""
    show: Show = "current"
    """`current`: not archived; `archived`: only archived; `deleted`: deleted, but can be restored."""
    engine: str | None = None
    pinned: bool | None = None
    project: str = ""
    """The project's name."""

    def runs(self, user: User | None) -> RunQuerySet:
        """The matching runs of the user's projects, not sorted yet. Raises `Invalid` that names the parameters at fault."""
        found = self.of_any_status(user)
        return found.filter(status__in=self.status) if self.status else found

    def counts(self, user: User | None) -> list[tuple[str, int]]:
        """The number of runs by status that match all other conditions; 0 is listed only for statuses in the filter."""
        rows = self.of_any_status(user).order_by().values_list("status").annotate(Count("pk"))
        counts = Counter(dict(rows))
        return [(value, counts[value]) for value in Run.Status.values if counts[value] or value in self.status]

    def of_any_status(self, user: User | None) -> RunQuerySet:
        self.check()
        found = self._shown().seen_by(user).filter(*self._conditions())
        for tag in self.tag:
            found = found.filter(pk__in=Tag.objects.filter(name=tag.lower()).values("run"))
        return found

    def filters(self) -> int:
        """The number of conditions besides words and status, which the page always shows."""
        chosen = (self.project, self.network, self.target, self.tag, self.since, self.until, self.show != "current")
        return sum(map(bool, chosen))

    def check(self) -> None:
        """Raises `Invalid` that names each invalid parameter."""
        wrong = self._unknown_choices()
        for name, texts in self._texts():
            if any("\0" in text for text in texts):
                wrong[name] = "Must not contain a NUL character."
        if len(self.q) > LONGEST:
            wrong["q"] = f"Must be at most {LONGEST} characters long."
        since, until = (_day(name, getattr(self, name), wrong) for name in ("since", "until"))
        if since and until and since > until:
            wrong["until"] = "Must not be before since."
        if wrong:
            raise Invalid(wrong)

    def _unknown_choices(self) -> dict[str, str]:
        choices: tuple[tuple[str, tuple[str, ...], Any], ...] = (
            ("order", (self.order,), get_args(RunOrder)),
            ("show", (self.show,), get_args(Show)),
            ("status", self.status, Run.Status.values),
        )
        return {
            name: f"Must be one of {', '.join(known)}, not {value[:40]!r}."
            for name, given, known in choices
            for value in given
            if value not in known
        }

    def _shown(self) -> RunQuerySet:
        if self.show == "deleted":
            return Run.everything.restorable()
        found: RunQuerySet = Run.objects.filter(archived=self.show == "archived")
        return found

    def _conditions(self) -> Iterable[Q]:
        for word in self.q.split():
            networks = Network.objects.filter(name__icontains=word)
            yield Q(name__icontains=word) | Q(network__in=networks) | Q(notes__icontains=word)
        equal: dict[str, Any] = {
            "target_fingerprint": self.target or None,
            "engine": self.engine,
            "pinned": self.pinned,
        }
        yield from (Q(**{name: value}) for name, value in equal.items() if value is not None)
        if self.project:
            yield Q(project__in=list(Project.objects.filter(name=self.project).values_list("pk", flat=True)))
        if self.network:
            yield Q(network__in=self._network_keys)
        if self.since:
            yield Q(created_at__gte=datetime.combine(date.fromisoformat(self.since), time.min, timezone.utc))
        if self.until:
            yield Q(created_at__lte=datetime.combine(date.fromisoformat(self.until), time.max, timezone.utc))

    @cached_property
    def _network_keys(self) -> list[int]:
        """Looked up first: the database has statistics about keys, not about joined names."""
        return list(Network.objects.filter(name=self.network).values_list("pk", flat=True))

    def _texts(self) -> Iterable[tuple[str, Iterable[str]]]:
        yield from (
            ("q", (self.q,)),
            ("project", (self.project,)),
            ("network", (self.network,)),
            ("target", (self.target,)),
            ("tag", self.tag),
        )
        yield "engine", (self.engine or "",)


def read_rounds(runs: Iterable[Run]) -> None:
    """Read what the forecasts of these runs need, in one query."""
    running = {run.pk: run for run in runs if run.status == Run.Status.RUNNING}
    if not running:
        return
    ended = [Q(run=key, number__one_of=run.rounds_ended_at) for key, run in running.items()]
    found = Trial.objects.filter(reduce(or_, ended)).order_by("number").values_list("run", "number", "at_s")
    by_run: dict[int, list[tuple[int, float | None]]] = {key: [] for key in running}
    for key, number, at_s in found:
        by_run[key].append((number, at_s))
    for key, run in running.items():
        run.learn_rounds(by_run[key])


def measured(runs: Iterable[Run]) -> dict[int, float]:
    """By run, the median in seconds of the latest benchmark of a library that was compiled from it; only of runs that have one."""
    of_runs = Benchmark.objects.filter(compilation__run__in=[run.pk for run in runs]).order_by("at", "pk")
    latest = dict(of_runs.values_list("compilation__run", "pk"))
    found = Benchmark.objects.in_bulk(latest.values()) if latest else {}
    medians = {run: found[key].median_s("tuned") for run, key in latest.items()}
    return {run: median for run, median in medians.items() if median is not None}


def fastest(runs: Iterable[Run], user: User | None) -> set[int]:
    """Those of the runs that have the lowest estimate of all the user's runs of the same network, options and target.

    Estimates of a few chosen tasks don't count, nor synthetic ones, and no run is the fastest of one.
    """
    whole = Q(synthetic=False, estimated_latency_s__isnull=False, tasks_chosen=F("tasks_total"))
    keys = {(run.network_id, run.target_fingerprint) for run in runs if run.network_id and run.estimated_latency_s}
    if not keys:
        return set()
    networks, targets = zip(*keys, strict=True)
    alike = Run.objects.seen_by(user).filter(whole, network__in=networks, target_fingerprint__in=targets)
    groups = alike.order_by().values_list("network", "target_fingerprint")
    least = {row[:2]: row[2] for row in groups.annotate(Min("estimated_latency_s"), Count("pk")) if row[3] > 1}
    return {
        run.pk
        for run in runs
        if not run.synthetic
        and run.estimated_latency_s is not None
        and run.tasks_chosen == run.tasks_total
        and least.get((run.network_id, run.target_fingerprint)) == run.estimated_latency_s
    }


def projects(user: User | None) -> list[str]:
    """Names of the user's projects."""
    return list(Project.objects.seen_by(user).values_list("name", flat=True))


def networks(user: User | None) -> list[str]:
    """Names of all networks that have runs in the user's projects."""
    made = Network.objects.filter(Exists(Run.objects.seen_by(user).filter(network=OuterRef("pk"))))
    return list(made.values_list("name", flat=True).distinct().order_by("name"))


def targets(user: User | None) -> list[tuple[str, Any]]:
    """Fingerprint and target of all targets that have runs in the user's projects, the latest first."""
    latest = (
        Run.objects.seen_by(user).order_by().values("target_fingerprint").annotate(latest=Max("pk")).values("latest")
    )
    runs = Run.objects.filter(pk__in=latest).order_by("-pk")
    return list(runs.values_list("target_fingerprint", "target"))


def tags(user: User | None) -> list[str]:
    """All tags of runs in the user's projects."""
    kept = Tag.objects.filter(seen_by(user, "run__project"), run__deleted_at__isnull=True)
    return list(kept.values_list("name", flat=True).distinct().order_by("name"))


def _day(name: str, text: str, wrong: dict[str, str]) -> date | None:
    if not text:
        return None
    found = day(text)
    if found is None:
        wrong[name] = "Must be a date such as 2026-11-21."
    return found
