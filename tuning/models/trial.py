"""A run's trials and their errors. Trials are numbers only; each distinct error text of a run is stored once."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from django.db import connections, models
from django.db.models import BigIntegerField, ExpressionWrapper, F, Max, Min, Q

from .fleet import Machine
from .run import Run
from .shapes import RunErrorDict, TrialColumns
from .task import Task

VALID, FAILED = Q(error_kind__isnull=True), Q(error_kind__isnull=False)
"""Conditions on the error kind rather than the latency: given a condition on the latency, SQLite reads improvements through
the index of valid trials by latency, that is, all valid trials."""
MAX_NUMBER = 2**31 - 1
"""The largest trial or task number that fits the columns."""
FEW = 20_000
"""As many rows as can be sorted for a page within a few milliseconds."""
LEAST_INDEXED_LOD = 1
"""Trials of a finer level of detail aren't in that index: a read of all trials goes by number."""
CURVE_COLUMNS = ("task", "at_s", "latency_s", "nth")
"""Included in the indexes that curves read: in a run of a million trials, each row would be on a different page."""


@models.PositiveIntegerField.register_lookup
class OneOf(models.Lookup):
    """Like `in`, with thousands of numbers in one parameter: Django prepares each item of `in`, which takes longer than finding the row."""

    lookup_name = "one_of"

    def get_prep_lookup(self) -> list[int]:
        return list(self.rhs)

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        # An array literal: psycopg2 would write a list as ARRAY[…], which PostgreSQL parses number by number.
        left, parameters = self.process_lhs(compiler, connection)
        return f"{left} = ANY(%s)", [*parameters, "{" + ",".join(map(str, self.rhs)) + "}"]

    def as_sqlite(self, compiler: Any, connection: Any) -> Any:
        # SQLite has no arrays, but reads JSON.
        left, parameters = self.process_lhs(compiler, connection)
        numbers = msgspec.json.encode(self.rhs).decode()
        return f"{left} IN (SELECT value FROM json_each(%s))", [*parameters, numbers]  # noqa: S608 - a column


class ReferenceMeasurement(models.Model):
    """One more measurement of the record of its run's `reference_trial`. It isn't a trial: neither budget nor record file has it."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="reference_measurements")
    after = models.PositiveIntegerField()
    """The run's latest trial by then."""
    at_s = models.FloatField()
    """Seconds of tuning since the run began."""
    latency_s = models.FloatField()

    class Meta:
        ordering = ("pk",)

    def __str__(self) -> str:
        return f"reference after trial {self.after}"


class TrialError(models.Model):
    """An error of a run, stored once for all trials that failed with it."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="errors")
    kind = models.CharField(max_length=20)
    digest = models.CharField(max_length=64)
    """Of the kind and text, without what differs from trial to trial (addresses, temporary paths)."""
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

    def to_dict(self) -> RunErrorDict:
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
    """The columns of a trial. Making a model instance takes many times as long."""

    run_id: int
    task_id: int
    number: int
    nth: int
    latency_s: float | None
    error_id: int | None
    error_kind: str | None
    short: bool
    at_s: float | None
    lod: int
    improved: bool
    noisy: bool = False
    machine_id: int | None = None


class TrialQuerySet(models.QuerySet["Trial"]):
    """Writes trials in bulk, and reads them without ever holding all trials of a run."""

    def insert(self, rows: Sequence[TrialRow]) -> None:
        """Write the rows in the database's fastest way."""
        table, columns = self.model._meta.db_table, ",".join(TrialRow._fields)  # noqa: SLF001 - documented by Django
        connection = connections[self.db]
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                with connection.wrap_database_errors:  # Django wraps only the standard cursor methods.
                    cursor.copy_expert(f"COPY {table} ({columns}) FROM STDIN (FORMAT csv)", _as_csv(rows))
            else:
                places = ",".join(["%s"] * len(TrialRow._fields))
                cursor.executemany(f"INSERT INTO {table} ({columns}) VALUES ({places})", rows)  # noqa: S608 - our own names

    def after(self, number: int, limit: int) -> TrialQuerySet:
        """The next `limit` trials after that number, in order."""
        return self.filter(number__gt=number).order_by("number")[:limit]

    def piecewise(self, *columns: str, size: int) -> Iterator[list[tuple[Any, ...]]]:
        """Lists of at most `size` rows in order; a row is the trial's number followed by `columns`.

        Each list is a query of its own, so a slow reader holds no database snapshot open.
        """
        number = 0
        while rows := list(self.after(number, size).values_list("number", *columns)):
            yield rows
            number = rows[-1][0]

    def failed(self) -> TrialQuerySet:
        return self.filter(FAILED)

    def valid(self) -> TrialQuerySet:
        return self.filter(VALID)

    def between(self, least: float | None, most: float | None) -> TrialQuerySet:
        """Trials with a latency in this range, in seconds, both ends included."""
        return self.filter(**_between("latency_s", least, most))

    def gathered(self, least: float | None, most: float | None) -> TrialQuerySet | None:
        """Valid trials in this range, read by latency and then sorted in any order; None if they are too many to sort."""
        found = self.valid().between(least, most)
        if found.order_by("latency_s")[FEW : FEW + 1].exists():
            return None
        return self.filter(number__in=found.order_by().values("number"))

    def among_noisy(self, run: Run) -> TrialQuerySet:
        """Those of the run's noisy trials, which are found by number and then sorted in any order if they are few."""
        if run.trials_noisy > FEW:
            return self.filter(noisy=True)
        return self.filter(number__in=run.trials.filter(noisy=True).order_by().values("number"))

    def passing(self, least: float | None, most: float | None) -> TrialQuerySet:
        """Valid trials in this range, checked one by one while reading in another order.

        The addition keeps the database off the index by latency: if it underestimates the range, it sorts half a
        million rows for one page.
        """
        return self.valid().alias(measured_s=F("latency_s") + 0.0).filter(**_between("measured_s", least, most))

    def task_by_task(self, run: Run) -> TrialQuerySet:
        """The run's trials through the index by task and number, of which the keys of its tasks are a range.

        The addition keeps the database from reading all of the run's trials and sorting them.
        """
        keys = run.tasks.aggregate(first=Min("pk"), last=Max("pk"))
        if keys["first"] is None:
            return self.none()
        of = ExpressionWrapper(F("run_id") + 0, BigIntegerField())
        return self.filter(task__gte=keys["first"], task__lte=keys["last"]).alias(of=of).filter(of=run.pk)

    def numbered(self, numbers: range) -> TrialQuerySet:
        """Trials in this range of numbers, read through another index: the addition keeps the database off the one by number."""
        return self.alias(place=F("number") + 0).filter(place__range=(numbers.start, numbers.stop - 1))

    def every(self, step: int) -> TrialQuerySet:
        """Trials whose number is a multiple of `step`."""
        return self if step == 1 else self.alias(rest=F("number") % step).filter(rest=0)

    def improvements(self) -> TrialQuerySet:
        """Trials that were their task's best when measured: the exact best-so-far curves, from few rows."""
        return self.filter(improved=True).order_by("number")

    def thinned(self, level: int) -> TrialQuerySet:
        """Every 2^level-th trial. It is a range of an index, so the cost depends on the result's size, not the run's."""
        found = self.filter(lod__gte=level).order_by("number")
        # SQLite uses the partial index only if the query repeats its condition, and seeks by the first of two bounds.
        return found.filter(lod__gte=LEAST_INDEXED_LOD) if level >= LEAST_INDEXED_LOD else found

    def spread(self, count: int, points: int) -> TrialQuerySet:
        """About `points` of a run's first `count` trials, evenly spread: a whole level of detail and a part of the next finer one.

        Whatever the run's size, this reads a range of the index with fewer than twice `points` rows.
        """
        level = (count // (points + 1)).bit_length()
        if level == 0:
            return self.order_by("number")
        missing, finer = points - (count >> level), (count >> (level - 1)) - (count >> level)
        # The bits above the lowest set one number the trials of the finer level from 0.
        turn = F("number").bitrightshift(level) * missing % finer
        return self.thinned(level - 1).alias(turn=turn).filter(Q(lod__gte=level) | Q(turn__lt=missing))


class Trial(models.Model):
    """One candidate schedule, built and measured once. Its trace is in the run's record file."""

    # No index of their own: the composite ones below start with them.
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="trials", db_index=False)
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="trial_set", db_index=False)
    number = models.PositiveIntegerField()
    nth = models.PositiveIntegerField()
    """Number among the trials of its task, from 1."""
    latency_s = models.FloatField(null=True)
    error = models.ForeignKey(TrialError, on_delete=models.RESTRICT, null=True, related_name="trials", db_index=False)
    error_kind = models.CharField(max_length=20, null=True)
    short = models.BooleanField(default=False, db_default=False)
    """Measured briefly, because it was clearly slower than its task's best."""
    noisy = models.BooleanField(default=False, db_default=False)
    """Measured while others' processes used too much of the machine (`fleet.machine.DISTURBED`)."""
    machine = models.ForeignKey(
        Machine, on_delete=models.PROTECT, null=True, related_name="+", db_index=False, db_constraint=False
    )
    """Which one measured it; null if that isn't recorded. Unlike a constraint, this costs nothing for each trial, and rows of machines stay."""
    at_s = models.FloatField(null=True)
    """Null if it isn't recorded."""
    lod = models.PositiveSmallIntegerField()
    """Level of detail: the number of trailing zero bits of `number`."""
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
            models.Index(
                fields=("run", "lod", "number", *CURVE_COLUMNS),
                condition=Q(lod__gte=LEAST_INDEXED_LOD),
                name="trial_levels",
            ),
            models.Index(fields=("run", "number"), condition=Q(improved=True), name="trial_improvements"),
            # It includes `improved`, which SQLite reads although the condition fixes it.
            models.Index(
                fields=("run", "number", *CURVE_COLUMNS, "improved"), condition=Q(improved=True), name="trial_bests"
            ),
            models.Index(fields=("task", "number")),
            models.Index(fields=("run", "latency_s", "number"), condition=VALID, name="trial_latencies"),
            models.Index(fields=("task", "latency_s", "number"), condition=VALID, name="trial_latencies_of_task"),
            models.Index(fields=("run", "number"), condition=FAILED, name="trial_failures"),
            models.Index(fields=("task", "number"), condition=FAILED, name="trial_failures_of_task"),
            models.Index(fields=("run", "latency_s"), condition=Q(improved=True), name="trial_improved_latencies"),
            models.Index(fields=("run", "number"), condition=Q(noisy=True), name="trial_noisy"),
            models.Index(fields=("error",), condition=Q(error__isnull=False), name="trial_errors"),
        )

    def __str__(self) -> str:
        return f"trial {self.number}"


def _as_csv(rows: Iterable[TrialRow]) -> io.StringIO:
    """For COPY, which reads an empty field as NULL. An empty string would become NULL, too, but no error kind is empty."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    buffer.seek(0)
    return buffer


def _between(column: str, least: float | None, most: float | None) -> dict[str, float]:
    ends = {f"{column}__gte": least, f"{column}__lte": most}
    return {condition: end for condition, end in ends.items() if end is not None}


def trial_columns(
    trials: Iterable[TrialRow], index_of: Mapping[int, int], machine_of: Mapping[int | None, str], after: int
) -> TrialColumns:
    """The trials as columns. `index_of` maps a task's key to its index, and `machine_of` a machine's key to its name.

    `after` becomes `last` if there are no trials.
    """
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
        "noisy": [row.noisy for row in rows],
        "machine": [machine_of.get(row.machine_id) for row in rows],
        "last": max((row.number for row in rows), default=after),
    }


def level_of_detail(number: int) -> int:
    """The number of trailing zero bits of a trial's number (from 1)."""
    return (number & -number).bit_length() - 1


def step_for(trials: int, points: int) -> int:
    """The smallest power of two such that taking every step-th trial gives at most `points`."""
    return 1 << max(0, (-(-trials // points) - 1).bit_length()) if trials else 1
