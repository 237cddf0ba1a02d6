"""A run's trials and their errors: numbers, each text once, and what is set once on insert for quick curves."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from django.db import connections, models
from django.db.models import BigIntegerField, ExpressionWrapper, F, Max, Min, Q

from .run import Run
from .shapes import ErrorDict, TrialColumns
from .task import Task

VALID, FAILED = Q(error_kind__isnull=True), Q(error_kind__isnull=False)
"""By the error's kind and not by the latency, from which SQLite would infer that an index of valid trials serves a read of
improvements: it would walk all valid ones in the order of latency."""
MAX_NUMBER = 2**31 - 1
"""The largest trial or task number that the columns hold."""
FEW = 20_000
"""Rows that are sorted for a page in a few milliseconds."""
COARSE = 1
"""The level of detail from which on trials are indexed by it: a run that is read whole is read by number."""
DRAWN = ("task", "at_s", "latency_s", "nth")
"""What curves show of a trial is in the index: of a million trials each would else be on a page of its own."""


@models.PositiveIntegerField.register_lookup
class OneOf(models.Lookup):
    """As `in`, of thousands of numbers as one parameter: Django prepares each of them by itself, which takes longer than to find it."""

    lookup_name = "one_of"

    def get_prep_lookup(self) -> list[int]:
        """As every database's client takes it."""
        return list(self.rhs)

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        """PostgreSQL's."""
        left, parameters = self.process_lhs(compiler, connection)
        return f"{left} = ANY(%s)", [*parameters, "{" + ",".join(map(str, self.rhs)) + "}"]

    def as_sqlite(self, compiler: Any, connection: Any) -> Any:
        """SQLite has no arrays, but knows JSON."""
        left, parameters = self.process_lhs(compiler, connection)
        numbers = msgspec.json.encode(self.rhs).decode()
        return f"{left} IN (SELECT value FROM json_each(%s))", [*parameters, numbers]  # noqa: S608 - a column


class TrialError(models.Model):
    """An error text of a run, stored once however many trials met it."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="errors")
    kind = models.CharField(max_length=20)
    digest = models.CharField(max_length=64)
    """Of kind and text, less what differs from trial to trial (addresses, temporary paths)."""
    text = models.TextField()
    count = models.PositiveIntegerField(default=0)
    first_trial = models.PositiveIntegerField()
    last_trial = models.PositiveIntegerField()
    tasks = models.JSONField(default=list)

    class Meta:
        ordering = ("-count", "first_trial")
        constraints = (models.UniqueConstraint(fields=("run", "digest"), name="error_text_once_a_run"),)

    def __str__(self) -> str:
        return f"{self.kind}: {self.text[:60]}"

    def to_dict(self) -> ErrorDict:
        """The error as the API shows it."""
        return {
            "kind": self.kind,
            "text": self.text,
            "count": self.count,
            "first_trial": self.first_trial,
            "last_trial": self.last_trial,
            "tasks": self.tasks,
        }


class TrialRow(NamedTuple):
    """A trial's columns, as they are stored: an instance of the model takes many times as long to make."""

    run_id: int
    task_id: int
    number: int
    nth: int
    latency_s: float | None
    error_id: int | None
    error_kind: str | None
    short: bool
    at_s: float
    lod: int
    improved: bool


class TrialQuerySet(models.QuerySet["Trial"]):
    """Reads of trials, none of which holds all trials of a run at once; and how they are written."""

    def insert(self, rows: Sequence[TrialRow]) -> None:
        """Write rows in the fastest way that the database has."""
        table, columns = self.model._meta.db_table, ",".join(TrialRow._fields)  # noqa: SLF001 - documented by Django
        connection = connections[self.db]
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                cursor.copy_expert(f"COPY {table} ({columns}) FROM STDIN (FORMAT csv)", _as_csv(rows))
            else:
                places = ",".join(["%s"] * len(TrialRow._fields))
                cursor.executemany(f"INSERT INTO {table} ({columns}) VALUES ({places})", rows)  # noqa: S608 - our own names

    def rows(self) -> Iterator[TrialRow]:
        """Them as they are stored."""
        return map(TrialRow._make, self.values_list(*TrialRow._fields).iterator())

    def after(self, number: int, limit: int) -> TrialQuerySet:
        """The next `limit` trials of a run by number."""
        return self.filter(number__gt=number).order_by("number")[:limit]

    def piecewise(self, *columns: str, size: int) -> Iterator[list[tuple[Any, ...]]]:
        """All of them by number, at most `size` rows of number and `columns` at a time.

        Each piece is a query of its own: however slowly they are taken, no snapshot is held open meanwhile.
        """
        number = 0
        while rows := list(self.after(number, size).values_list("number", *columns)):
            yield rows
            number = rows[-1][0]

    def failed(self) -> TrialQuerySet:
        """Those without a latency."""
        return self.filter(FAILED)

    def valid(self) -> TrialQuerySet:
        """Those with a latency."""
        return self.filter(VALID)

    def between(self, least: float | None, most: float | None) -> TrialQuerySet:
        """Those of these latencies in seconds, both ends included."""
        return self.filter(**_between("latency_s", least, most))

    def gathered(self, least: float | None, most: float | None) -> TrialQuerySet | None:
        """Valid ones of these latencies, gathered by latency, to be sorted in any way; None when they are too many for that."""
        found = self.valid().between(least, most)
        if found.order_by("latency_s")[FEW : FEW + 1].exists():
            return None
        return self.filter(number__in=found.order_by().values("number"))

    def passing(self, least: float | None, most: float | None) -> TrialQuerySet:
        """Valid ones of these latencies, for who reads in another order than theirs and finds the next ones near.

        The sum keeps a database from the index by latency: it may guess that they are few, and sort half a million for one page.
        """
        return self.valid().alias(measured_s=F("latency_s") + 0.0).filter(**_between("measured_s", least, most))

    def task_by_task(self, run: Run) -> TrialQuerySet:
        """The run's, to be read by task and number: its tasks' keys are a range of that index.

        The sum keeps a database from gathering all of the run's trials and sorting them.
        """
        keys = run.tasks.aggregate(first=Min("pk"), last=Max("pk"))
        if keys["first"] is None:
            return self.none()
        of = ExpressionWrapper(F("run_id") + 0, BigIntegerField())
        return self.filter(task__gte=keys["first"], task__lte=keys["last"]).alias(of=of).filter(of=run.pk)

    def numbered(self, numbers: range) -> TrialQuerySet:
        """Those of these numbers, told by an index that is about something else: the sum keeps it from the one by number."""
        return self.alias(place=F("number") + 0).filter(place__range=(numbers.start, numbers.stop - 1))

    def every(self, step: int) -> TrialQuerySet:
        """Those whose number is a multiple of `step`."""
        return self if step == 1 else self.alias(rest=F("number") % step).filter(rest=0)

    def improvements(self) -> TrialQuerySet:
        """The trials that were their task's best when measured: exact best-so-far curves from few rows."""
        return self.filter(improved=True).order_by("number")

    def thinned(self, level: int) -> TrialQuerySet:
        """Every 2^level-th trial: an index range whose cost doesn't depend on the run's size."""
        found = self.filter(lod__gte=level).order_by("number")
        # The index's own condition. It stands last: of two bounds SQLite seeks by the first.
        return found.filter(lod__gte=COARSE) if level >= COARSE else found

    def spread(self, count: int, points: int) -> TrialQuerySet:
        """Of a run's first `count` trials `points`, evenly: a whole level of detail, and of the next finer one what is missing.

        Whatever the run's size, that is a range of the index with less than twice `points` rows.
        """
        level = (count // (points + 1)).bit_length()
        if level == 0:
            return self.order_by("number")
        missing, finer = points - (count >> level), (count >> (level - 1)) - (count >> level)
        # The finer ones are counted from 0 by the bits above their last one.
        turn = F("number").bitrightshift(level) * missing % finer
        return self.thinned(level - 1).alias(turn=turn).filter(Q(lod__gte=level) | Q(turn__lt=missing))


class Trial(models.Model):
    """One candidate schedule, built and measured once. Numbers only: its trace is in the run's record file."""

    # No index of their own: those below begin with them.
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="trials", db_index=False)
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="trial_set", db_index=False)
    number = models.PositiveIntegerField()
    nth = models.PositiveIntegerField()
    """Counts the trials of its task, from 1."""
    latency_s = models.FloatField(null=True)
    error = models.ForeignKey(TrialError, on_delete=models.RESTRICT, null=True, related_name="trials", db_index=False)
    error_kind = models.CharField(max_length=20, null=True)
    short = models.BooleanField(default=False, db_default=False)
    """Measured in a few short laps only, being clearly slower than its task's best."""
    at_s = models.FloatField()
    lod = models.PositiveSmallIntegerField()
    """Number of trailing zero bits of `number`."""
    improved = models.BooleanField()

    objects = TrialQuerySet.as_manager()

    class Meta:
        ordering = ("number",)
        constraints = (
            models.UniqueConstraint(fields=("run", "number"), name="trial_number_once_a_run"),
            models.CheckConstraint(
                condition=Q(latency_s__isnull=True, error_kind__isnull=False)
                | Q(latency_s__isnull=False, error_kind__isnull=True),
                name="trial_has_latency_or_error",
            ),
            models.CheckConstraint(condition=Q(short=False) | Q(improved=False), name="trial_short_never_improves"),
        )
        indexes = (
            models.Index(fields=("run", "lod", "number", *DRAWN), condition=Q(lod__gte=COARSE), name="trial_levels"),
            models.Index(fields=("run", "number"), condition=Q(improved=True), name="trial_improvements"),
            # With `improved` itself: SQLite reads it all the same.
            models.Index(fields=("run", "number", *DRAWN, "improved"), condition=Q(improved=True), name="trial_bests"),
            models.Index(fields=("task", "number")),
            models.Index(fields=("run", "latency_s", "number"), condition=VALID, name="trial_latencies"),
            models.Index(fields=("task", "latency_s", "number"), condition=VALID, name="trial_latencies_of_task"),
            models.Index(fields=("run", "number"), condition=FAILED, name="trial_failures"),
            models.Index(fields=("task", "number"), condition=FAILED, name="trial_failures_of_task"),
            models.Index(fields=("run", "latency_s"), condition=Q(improved=True), name="trial_improved_latencies"),
            models.Index(fields=("error",), condition=Q(error__isnull=False), name="trial_errors"),
        )

    def __str__(self) -> str:
        return f"trial {self.number}"


def _as_csv(rows: Iterable[TrialRow]) -> io.StringIO:
    """The rows for COPY, which reads an empty field as NULL: no text column of a trial is ever an empty string."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    buffer.seek(0)
    return buffer


def _between(column: str, least: float | None, most: float | None) -> dict[str, float]:
    ends = {f"{column}__gte": least, f"{column}__lte": most}
    return {condition: end for condition, end in ends.items() if end is not None}


def trial_columns(trials: Iterable[TrialRow], index_of: Mapping[int, int], after: int) -> TrialColumns:
    """The trials as columns; `index_of` gives the task's index by its key, `after` is `last` when there are none."""
    rows = list(trials)
    return {
        "number": [row.number for row in rows],
        "task": [index_of[row.task_id] for row in rows],
        "latency_s": [row.latency_s for row in rows],
        "error": [row.error_kind for row in rows],
        "short": [row.short for row in rows],
        "at_s": [row.at_s for row in rows],
        "nth": [row.nth for row in rows],
        "improved": [row.improved for row in rows],
        "last": max((row.number for row in rows), default=after),
    }


def level_of_detail(number: int) -> int:
    """Number of trailing zero bits of a trial's number (from 1)."""
    return (number & -number).bit_length() - 1


def step_for(trials: int, points: int) -> int:
    """The least power of two such that every step-th of so many trials makes at most `points`."""
    return 1 << max(0, (-(-trials // points) - 1).bit_length()) if trials else 1
