"""What is kept over time: what the trackers reported, what workers counted, and when the sweep was last done."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from datetime import timezone as zone

from django.db import connections, models
from django.db.models import Value
from django.db.models.expressions import Combinable
from django.db.models.functions import Now
from django.utils import timezone

KEPT = timedelta(hours=1)
COUNTED = timedelta(hours=25)
"""How long the counts of single minutes are kept: a day's chart begins within an hour that is whole."""
EVER = datetime(1970, 1, 1, tzinfo=zone.utc)
"""In place of a minute: the total of all time."""


class TrackerSampleQuerySet(models.QuerySet["TrackerSample"]):
    def recent(self, tracker: str) -> TrackerSampleQuerySet:
        """The tracker's samples of the last hour, oldest first."""
        return self.filter(tracker=tracker, at__gte=timezone.now() - KEPT).order_by("at")

    def outdated(self) -> TrackerSampleQuerySet:
        """Samples that no page shows anymore."""
        return self.filter(at__lt=timezone.now() - KEPT)


class TrackerSample(models.Model):
    """A tracker's queues at one moment, or the error that kept it from reporting them."""

    tracker = models.CharField(max_length=20)
    at = models.DateTimeField(default=timezone.now)
    queues = models.JSONField(default=dict)
    """By key: total, free and pending devices."""
    error = models.TextField(null=True)

    objects = TrackerSampleQuerySet.as_manager()

    class Meta:
        indexes = (models.Index(fields=("tracker", "at")),)

    def __str__(self) -> str:
        return f"{self.tracker} at {self.at.isoformat()}"


class TallyQuerySet(models.QuerySet["Tally"]):
    def add(self, device: str, amounts: Mapping[str, float], machine: str = "") -> None:
        """Add the amounts, by what they count, to this minute and to the total."""
        self.add_each(device, {machine: amounts})

    def add_each(self, device: str, amounts: Mapping[str, Mapping[str, float]]) -> None:
        """Likewise for several machines, by name.

        One statement, since the recorder does this with each batch; the ORM can't add to rows that may not exist yet.
        """
        connection = connections[self.db]
        now = timezone.now().replace(second=0, microsecond=0)
        ever, minute = (connection.ops.adapt_datetimefield_value(time) for time in (EVER, now))
        counted = [
            (machine, device, str(what), float(amount))
            for machine, each in amounts.items()
            for what, amount in each.items()
        ]
        # A machine's clock may be wrong, the database's counts. With SQLite there is one machine.
        this_minute = "COALESCE(date_trunc('minute', now()), %s)" if connection.vendor == "postgresql" else "%s"
        places = ",".join([f"(%s,%s,%s,%s,%s),({this_minute},%s,%s,%s,%s)"] * len(counted))
        rows = [(time, *one) for one in counted for time in (ever, minute)]
        table = self.model._meta.db_table  # noqa: SLF001 - documented by Django
        with connection.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO {table} (minute, machine, device, what, amount) VALUES {places}"  # noqa: S608 - our own names
                f" ON CONFLICT (minute, machine, device, what) DO UPDATE SET amount = {table}.amount + excluded.amount",
                [value for row in rows for value in row],
            )

    def totals(self) -> TallyQuerySet:
        return self.filter(minute=EVER)

    def since(self, moment: datetime | Combinable) -> TallyQuerySet:
        """The counts of single minutes from this time on, oldest first."""
        return self.filter(minute__gte=moment).order_by("minute")

    def outdated(self) -> TallyQuerySet:
        """Minutes that no page shows anymore. Totals stay."""
        return self.filter(minute__gt=EVER, minute__lt=Now() - COUNTED)


class Tally(models.Model):
    """A count of what a device did in one minute, or ever.

    Totals only grow: unlike sums over runs, they don't shrink when a run is deleted.
    """

    class What(models.TextChoices):
        TRIALS = "trials"
        FAILED = "failed"
        """Trials that failed; stored with their kind: see `failed_as`."""
        TUNED_S = "tuned_s"
        """Seconds during which a run was being tuned."""
        LAG_S = "lag_s"
        """Sum, over `LAGS` trials, of the seconds from the end of the measurement until watchers were told of the trial."""
        LAGS = "lags"

    minute = models.DateTimeField()
    """When it began, or `EVER`."""
    machine = models.CharField(max_length=63, default="", db_default="")
    """The machine's name; empty for what an earlier version counted."""
    device = models.CharField(max_length=60)
    what = models.CharField(max_length=40)
    amount = models.FloatField(default=0.0)

    objects = TallyQuerySet.as_manager()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("minute", "machine", "device", "what"), name="one_tally_a_minute"),
        )

    def __str__(self) -> str:
        return f"{self.what} of {self.device}"

    @classmethod
    def failed_as(cls, kind: str) -> str:
        """What counts the trials that failed with this kind of error."""
        return f"{cls.What.FAILED}:{kind}"

    @property
    def error_kind(self) -> str | None:
        """The kind of error that it counts; None if it counts something else."""
        what, _, kind = self.what.partition(":")
        return kind if what == self.What.FAILED else None


class Beat(models.Model):
    """When a process that works behind the scenes was last done with its work."""

    SWEEP = "sweep"

    name = models.CharField(max_length=20, primary_key=True)
    at = models.DateTimeField()
    versions = models.JSONField(default=dict, db_default=Value({}, models.JSONField()))
    """Of the process, by package: of the sweep, these are the site's."""

    def __str__(self) -> str:
        return f"{self.name} at {self.at.isoformat()}"

    @classmethod
    def note(cls, name: str, versions: Mapping[str, str] | None = None) -> None:
        """It is done now."""
        cls.objects.update_or_create(name=name, defaults={"at": timezone.now(), "versions": dict(versions or {})})
