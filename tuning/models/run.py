"""Runs: their status, their turn on the device, and where their files are."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, Protocol, cast

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models
from django.db.models import F, Max, Q, Value
from django.db.models.functions import Coalesce, Now
from django.utils import timezone

from tuning.engines.wire.engines import META_SCHEDULE
from tuning.engines.wire.legacy import RECORDS
from tuning.engines.wire.options.rewrites import Rewrites
from tuning.engines.wire.protocol import ARTIFACTS
from tuning.forecast import Forecast, forecast
from tuning.logs import meta_schedule
from tuning.pace import Pace
from tuning.wording import simulator

from .fleet import (
    NEXT,
    SHARED,
    Machine,
    MachineQuerySet,
    MemberDict,
    Needs,
    Place,
    PoolMember,
    Served,
    Waiting,
    in_fair_order,
    is_shared,
    places,
    shown,
)
from .imported import Import
from .lifecycle import LEASE, Leased, LeasedQuerySet, deciding, drawn_lease, not_within
from .network import Network, fingerprint
from .project import Project, seen_by
from .sentences import EARLY, disturbance, drifted, slower_than_known, unknown, words
from .shapes import Alert, RunDict, RunFacts, WrittenDict, iso, username

KEPT = Q(deleted_at__isnull=True)
CURRENT = KEPT & Q(archived=False)
REMEMBERED = timedelta(days=7)
"""For how long it counts, when it is decided whose turn is next, that somebody's run was tuned."""
STREAM_PATIENCE = timedelta(minutes=3)
"""A script that sends nothing for this long, not even that it is alive, is presumed to have ended."""


ABANDONED = {
    "launched": "The worker stopped responding. Resume the run to continue where it stopped.",
    "watched": "Whoever watched the file stopped responding. Watch the file again to continue where it stopped.",
    "streamed": f"The script hasn't been heard from for {STREAM_PATIENCE.seconds // 60} minutes. The run continues as soon as it is heard from again.",
}
"""By origin: why a run ended whose lease expired. An imported one has none."""


class TunedTask(Protocol):
    """What a run needs to know of its tasks to raise alerts."""

    trials: int
    chosen: bool

    @property
    def is_spare(self) -> bool:
        """Whether another task computes the same faster."""

    def alert(self, *, everyone_had_a_turn: bool, tried_again: bool) -> Alert | None:
        """What users should know of the task now, if anything. `tried_again`: this site goes on with it."""


LOCAL = {"cuda": "cuda:0"}
"""By kind of target, this machine's device; `cpu` for the others."""


def measures_on(run: str = "") -> models.Case:
    """The device that libraries of a run are measured on, as an expression; `run` is the beginning of a lookup, such as `run__`."""
    whens = [
        models.When(**{f"{run}device": "", f"{run}target__kind": kind}, then=Value(local))
        for kind, local in LOCAL.items()
    ]
    elsewhere = models.When(**{f"{run}device": ""}, then=Value("cpu"))
    return models.Case(*whens, elsewhere, default=F(f"{run}device"), output_field=models.CharField())


_MEASURED = Q(
    compilations__stage__in=("choose", "prove"),
    compilations__status__in=("running", "cancelling"),
    compilations__heartbeat_at__gte=Now() - LEASE,
)
"""Runs of which a live job measures a library."""
_BESIDE = Q(side_by_sides__status__in=("running", "cancelling"), side_by_sides__heartbeat_at__gte=Now() - LEASE)
"""Runs whose best records a live job measures side by side with those of others."""


def _served() -> Served:
    """Whom the devices serve, and served when."""
    live = Run.objects.live().exclude(device="").order_by()
    return Served(Counter(live.values_list("created_by", flat=True)), _served_at())


def _served_at() -> dict[int | None, datetime]:
    """By person, when a run of theirs was last tuned."""
    lately = Run.objects.exclude(device="").filter(heartbeat_at__gte=Now() - REMEMBERED).order_by()
    return dict(lately.values_list("created_by").annotate(Max("heartbeat_at")))


class RunQuerySet(LeasedQuerySet["Run"]):
    def seen_by(self, user: User | None) -> RunQuerySet:
        """Runs of the user's projects; all of them for None, the site itself."""
        return self.filter(seen_by(user))

    def occupying(self) -> RunQuerySet:
        """Runs that keep their device busy: they are being tuned, or a live job measures a library of theirs."""
        return self.filter((Q(status__in=Run.LIVE) & ~Q(device="")) | _MEASURED)

    def on_device(self, device: str, machine: Machine | None) -> RunQuerySet:
        """Runs that keep this device of the machine busy; None for a process whose machine the site doesn't know."""
        tuned, measured = Q(status__in=Run.LIVE, device=device), _MEASURED & Q(on=device)
        if not is_shared(device):
            tuned, measured = tuned & Q(machine=machine), measured & Q(compilations__machine=machine)
        return self.annotate(on=measures_on()).filter(tuned | measured)

    def measured_like(self, run: Run) -> RunQuerySet:
        """Runs that found their weights where the run did: in the caches, unless `cold_bytes` says otherwise."""
        return self.filter(cold_bytes__gt=0) if run.cold_bytes else self.exclude(cold_bytes__gt=0)

    def measured_beside(self, device: str, machine: Machine | None) -> RunQuerySet:
        """Runs whose best records are measured side by side on this device of the machine."""
        return self.filter(_BESIDE & Q(side_by_sides__device=device, side_by_sides__machine=machine))

    def abandoned(self) -> RunQuerySet:
        """Live runs of which nothing was heard in time. A script may be out of reach for longer than a worker.

        Those that are being imported live and end with their import.
        """
        long_silent = not_within("heartbeat_at", STREAM_PATIENCE)
        own = super().abandoned().exclude(origin=Run.Origin.IMPORTED)
        return own.filter(long_silent | ~Q(origin=Run.Origin.STREAMED))

    def device_is_free(self, device: str, machine: Machine | None = None) -> bool:
        """Whether nothing is being measured on the machine's device. Call it within `deciding` in order to claim it."""
        measuring = (self.on_device(device, machine), self.measured_beside(device, machine))
        return not any(runs.exists() for runs in measuring) and not PoolMember.objects.hold(device, machine)

    def forgotten(self) -> RunQuerySet:
        """Of the queued runs that no worker was told of lately, the next one of each free device, and those without a device."""
        unheard = super().forgotten()
        wanted = self.filter(status=Run.Status.QUEUED).exclude(device="").order_by().values_list("device", flat=True)
        free = [one for device in sorted(set(wanted.distinct())) for one in self.free(device)]
        first = [run.pk for one in free if (run := self.next_for(*one)) is not None]
        return unheard.filter(Q(pk__in=first) | Q(device="")).order_by("queued_at", "pk")

    def free(self, device: str) -> Iterator[tuple[str, Machine | None]]:
        """The device with each machine that could take something for it right now; with None if it belongs to no machine."""
        machines: list[Machine | None] = [None]
        if not is_shared(device) and Machine.objects.exists():
            machines = [machine for machine in Machine.objects.taking_work() if device in machine.devices]
        for machine in machines:
            if self.device_is_free(device, machine):
                yield device, machine

    def waiting_for(self, device: str, machine: Machine | None) -> RunQuerySet:
        """Queued runs that may be taken for the machine's device, or for a tracker's by it or, with None, by any; in no order."""
        found = self.filter(status=Run.Status.QUEUED, device=device)
        if is_shared(device):
            able = [machine] if machine else Machine.objects.taking_work()
            return found.filter(Q(chosen_machine__isnull=True) | Q(chosen_machine__in=able))
        if machine is None:
            return found.filter(chosen_machine=None)
        wanted = Q(chosen_machine__isnull=True) | Q(chosen_machine=machine)
        if not Machine.objects.exclude(pk=machine.pk).exists():  # Then there is nothing to choose from.
            return found.filter(wanted)
        asked = Needs.objects.filter(runs__status=Run.Status.QUEUED).distinct()
        met = [needs.pk for needs in asked if needs.met_by(machine)]
        return found.filter(wanted, Q(needs__isnull=True) | Q(needs__in=met))

    def next_for(self, device: str, machine: Machine | None) -> Run | None:
        """Whose turn it is on the machine's device."""
        order = in_fair_order(self.waiting_for(device, machine).as_waiting(), _served())
        return self.filter(pk=order[0].pk).first() if order else None

    def as_waiting(self) -> Iterator[Waiting]:
        """Only what their turns depend on."""
        return map(Waiting._make, self.values_list(*Waiting._fields))

    def places(self) -> dict[int, Place]:
        """By the key of each queued run, how many runs come before it, and what it waits for."""
        queued = self.filter(status=Run.Status.QUEUED).exclude(device="")
        live = self.live().exclude(device="").values_list("device", "machine", "created_by")
        return places(list(queued.as_waiting()), list(live), _served_at())

    def others_of_network(self, run: Run) -> RunQuerySet:
        """Other runs of the same network, whatever its options, newest first, without archived ones. None if it isn't known."""
        if run.network is None:
            return self.none()
        return self.filter(network__name=run.network.name, archived=False).exclude(pk=run.pk).order_by("-pk")

    def listed(self) -> RunQuerySet:
        """With what a list shows, and without columns that are long or slow to decode."""
        tags = models.Prefetch("tags", to_attr="listed_tags")
        found = self.select_related("network", "project", "created_by", "machine", "chosen_machine").prefetch_related(
            tags
        )
        return found.defer("notes", "network__dims", "network__inputs", "network__operators")

    def restorable(self) -> RunQuerySet:
        """Deleted runs of which nothing has been removed yet. Only `Run.everything` has deleted runs."""
        return self.filter(deleted_at__isnull=False, purging=False)

    def outdated(self) -> RunQuerySet:
        """Deleted runs whose time to be restored is over."""
        return self.restorable().filter(deleted_at__lte=timezone.now() - timedelta(days=settings.KEEP_DELETED_DAYS))


_Runs = models.Manager.from_queryset(RunQuerySet)


class KeptRuns(_Runs["Run"]):
    """Runs that aren't deleted."""

    def get_queryset(self) -> RunQuerySet:
        return RunQuerySet(self.model, using=self._db).filter(deleted_at__isnull=True)


def first_of_free(
    devices: Iterable[str], waiting_for: Callable[[str, Machine | None], models.QuerySet[Any]]
) -> list[int]:
    """Of each of the devices that is free, the key of what was queued first of what waits for it."""
    free = [one for device in sorted(devices) for one in Run.objects.free(device)]
    firsts = [waiting_for(*one).order_by("queued_at", "pk").values_list("pk", flat=True)[:1] for one in free]
    return [key for first in firsts for key in first]


RECORD_FILES = (meta_schedule.RECORDS, RECORDS)
"""Names of the file in a run's folder whose line n is trial n: MetaSchedule's, and that of other engines."""


class Run(Leased):
    """One tuning of one network for one target."""

    class Status(models.TextChoices):
        """`queued → running → (stopping →) finished | stopped | failed | interrupted`."""

        QUEUED = "queued"
        RUNNING = "running"
        STOPPING = "stopping"
        FINISHED = "finished"
        STOPPED = "stopped"
        FAILED = "failed"
        INTERRUPTED = "interrupted"

    class Origin(models.TextChoices):
        """Who tuned: this site, or somebody else, of whom it has the log."""

        LAUNCHED = "launched"
        IMPORTED = "imported"
        WATCHED = "watched"
        """From a log that somebody else's tuner was writing meanwhile."""
        STREAMED = "streamed"
        """Trial by trial, from somebody else's script."""

    class Priority(models.IntegerChoices):
        """Of runs that wait for the same machine, those with a higher one come first."""

        LOW = -1
        NORMAL = 0
        HIGH = 1

    LIVE: ClassVar[tuple[str, ...]] = (Status.RUNNING, Status.STOPPING)
    RESUMABLE: ClassVar[tuple[str, ...]] = (Status.STOPPED, Status.FAILED, Status.INTERRUPTED)
    ENDED: ClassVar[tuple[str, ...]] = (Status.FINISHED, *RESUMABLE)
    READ_ON_RENEWAL: ClassVar[tuple[str, ...]] = ("status", "trials_budget", "time_limit_s")
    READ_ELSEWHERE: ClassVar[Mapping[str, str]] = {"drained_at": "machine__draining_at"}
    drained_at: datetime | None = None
    """Since when its machine is being drained, as of the last renewal."""
    _rounds: tuple[range, list[tuple[int, float]]] | None = None
    """Trials and seconds at the ends of its latest rounds, and the trials that these ended with."""
    taker: Machine | None = None
    """The machine of the process that is going to claim it; None if the site doesn't know that machine."""

    name = models.CharField(max_length=200)
    status = models.CharField(max_length=12, choices=Status.choices, default=Status.QUEUED)
    engine = models.CharField(max_length=30, default="meta_schedule")
    interpreter = models.CharField(max_length=20, default="", db_default="")
    """The name in TUNEBOARD_LEGACY_PYTHON of the interpreter that the engine runs under; empty for Tuneboard's own."""
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="runs")
    origin = models.CharField(
        max_length=10, choices=Origin.choices, default=Origin.LAUNCHED, db_default=Origin.LAUNCHED
    )
    imported_by = models.ForeignKey(Import, on_delete=models.SET_NULL, null=True, related_name="runs")
    """The import that made it."""
    network = models.ForeignKey(Network, on_delete=models.PROTECT, null=True, related_name="runs")
    """Null if it isn't recorded."""
    target = models.JSONField()
    """As the user gave it until the engine has resolved it, then the target's dict."""
    target_fingerprint = models.CharField(max_length=64)
    """Digest of the target: not every database can compare JSON."""
    device = models.CharField(max_length=60)
    """The device that the run occupies while it measures; empty for a run that somebody else tunes, since no log names it."""
    machine = models.ForeignKey(Machine, on_delete=models.PROTECT, null=True, related_name="runs")
    """Whose worker tunes it, or did so last; null before one has taken it, and for what an earlier version tuned."""
    measured_by = models.ManyToManyField(Machine, related_name="measured")
    """The machines that measured trials of it, as far as that is recorded."""
    chosen_machine = models.ForeignKey(Machine, on_delete=models.PROTECT, null=True, related_name="chosen_by")
    """The only one that may take it; null for any that fits."""
    machines_wanted = models.PositiveSmallIntegerField(default=1, db_default=1)
    """How many equal machines build and measure it; 0 for all that there are. With 1 its own machine does so by itself."""
    needs = models.ForeignKey(Needs, on_delete=models.PROTECT, null=True, related_name="runs")
    """What a machine must have to take it; null if it can't be told, as for a remote device: then any will do."""
    priority = models.SmallIntegerField(choices=Priority, default=Priority.NORMAL, db_default=Priority.NORMAL)
    options = models.JSONField(default=dict)
    versions = models.JSONField(default=dict)
    trials_budget = models.PositiveIntegerField(null=True)
    """Null for a run without one: somebody else's tuner decides when it ends."""
    time_limit_s = models.FloatField(null=True)
    """Seconds of tuning after which the run ends. Like the budget, it can be extended."""
    trials_done = models.PositiveIntegerField(default=0)
    trials_failed = models.PositiveIntegerField(default=0)
    trials_noisy = models.PositiveIntegerField(default=0, db_default=0)
    """Trials that were measured while others used too much of the machine."""
    disturbed = models.JSONField(default=list, db_default=Value([], models.JSONField()))
    """Names of the machines that measure it and of which others use too much at the moment, while it is live."""
    tasks_total = models.PositiveIntegerField(default=0)
    """How many functions of the network are tasks; without its spare ones, likewise below."""
    tasks_spare = models.PositiveIntegerField(default=0, db_default=0)
    """How many more tasks there are, each of which computes the same as one of these by a slower algorithm."""
    tasks_chosen = models.PositiveIntegerField(default=0)
    """How many of the tasks are tuned; the estimate covers these."""
    tasks_measured = models.PositiveIntegerField(default=0)
    tasks_confirmed = models.PositiveIntegerField(default=0, db_default=0)
    """How many of the chosen ones are confirmed; 0, too, for what an earlier version confirmed."""
    cold_bytes = models.PositiveBigIntegerField(null=True)
    """How many bytes an inference touches, if trials were measured with weights as cold as there: the network's weights, each once, and its functions' results.
    In runs of earlier versions weights count as often as they are used, and results may not. 0 if weights were in the caches, null if that isn't recorded."""
    estimated_latency_s = models.FloatField(null=True)
    confirmed_latency_s = models.FloatField(null=True)
    """The same sum of the tasks' confirmed latencies; null unless all that it covers are confirmed."""
    noise = models.FloatField(null=True)
    """How far measurements of one thing lie apart in it, as `tuning.noise` tells; null if that isn't recorded, or not yet."""
    reference_trial = models.PositiveIntegerField(null=True)
    """The trial whose record is measured again every so often; null for a run without one."""
    drift = models.FloatField(null=True)
    """How much slower its reference has become since the run began, if by more than noise."""
    adapted = models.JSONField(null=True)
    """The tasks that began with the schedules of similar ones, and the runs that these come from, as `WarmStart`; null if none did."""
    warm_start = models.JSONField(null=True)
    """Indices of the tasks whose search began with records of earlier runs, and the ids of those runs."""
    begun = models.JSONField(default=list, db_default=Value([], models.JSONField()))
    """The known records that were measured first, and what they were here: see `BegunDict`."""
    phase = models.CharField(max_length=20, null=True)
    phase_task = models.PositiveIntegerField(null=True)
    elapsed_s = models.FloatField(null=True, default=0.0)
    """Seconds of tuning by all processes of the run; null if no times are recorded."""
    sessions = models.JSONField(default=list, db_default=Value([], models.JSONField()))
    """Where somebody else's tuner was started, in order: see `SessionDict`."""
    records_digest = models.CharField(max_length=64, default="", db_default="")
    """Of an imported run's records, by which the same log is recognized."""
    bad_lines = models.PositiveIntegerField(default=0, db_default=0)
    """Lines of the log that couldn't be read."""
    continues = models.ForeignKey("self", on_delete=models.SET_NULL, null=True, related_name="continued_by")
    """The run whose trials its search began with, before those of all others; null for none, and once that is removed for good."""
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="runs")
    created_at = models.DateTimeField(auto_now_add=True)
    queued_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    finish_reason = models.CharField(max_length=20, null=True)
    """Why the engine ended by itself: a `FinishReason`."""
    error = models.TextField(null=True)
    synthetic = models.BooleanField(default=False)
    estimates = models.JSONField(default=list)
    """The curve of the estimate in a few points, each a trial's number and seconds; see `tuning.work.estimating.grown`."""
    pinned = models.BooleanField(default=False, db_default=False)
    """Listed first."""
    archived = models.BooleanField(default=False, db_default=False)
    """Not listed unless asked for; otherwise a run like any other."""
    deleted_at = models.DateTimeField(null=True)
    """A deleted run is neither shown nor used, and can be restored until it is purged."""
    purging = models.BooleanField(default=False, db_default=False)
    """Its removal has begun, so it can't be restored anymore."""
    notes = models.TextField(default="", db_default="")
    """In Markdown."""
    revision = models.PositiveIntegerField(default=1, db_default=1)
    """Counts the edits of name and notes. An edit names the revision that it is based on."""
    edited_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    edited_at = models.DateTimeField(null=True)

    objects = KeptRuns()
    everything = RunQuerySet.as_manager()

    class Meta:
        ordering = ("-created_at", "-id")
        permissions = (("stop_run", "Can stop run"),)
        constraints = (
            # Two runs at once would disturb each other's measurements, so the database itself refuses.
            models.UniqueConstraint(
                Coalesce("machine_id", 0, output_field=models.BigIntegerField()),
                "device",
                condition=Q(status__in=("running", "stopping")) & ~Q(device=""),
                name="one_live_run_a_device",
            ),
            # What a tracker has under a key belongs to no machine.
            models.UniqueConstraint(
                fields=("device",),
                condition=Q(status__in=("running", "stopping"), device__startswith=SHARED),
                name="one_live_run_a_shared_device",
            ),
            models.CheckConstraint(condition=Q(trials_done__lte=F("trials_budget")), name="trials_within_budget"),
            models.CheckConstraint(condition=Q(pinned=False) | Q(archived=False), name="run_pinned_or_archived"),
        )
        indexes = (
            models.Index(fields=("status", "device", "queued_at")),
            # One for each order of the list, whose queries repeat the conditions.
            *(
                models.Index(fields=(column, "id"), condition=CURRENT, name=f"run_by_{column}")
                for column in ("created_at", "name", "status", "trials_done", "trials_failed")
            ),
            models.Index(fields=("estimated_latency_s", "id"), condition=CURRENT, name="run_by_estimate"),
            models.Index(fields=("target_fingerprint", "id"), condition=KEPT, name="run_by_target"),
            models.Index(fields=("created_at", "id"), condition=KEPT & Q(pinned=True), name="run_pinned"),
            models.Index(fields=("created_at", "id"), condition=KEPT & Q(archived=True), name="run_archived"),
            models.Index(fields=("records_digest",), condition=~Q(records_digest=""), name="run_by_records"),
            models.Index(fields=("deleted_at",), condition=Q(deleted_at__isnull=False), name="run_deleted"),
        )

    def __str__(self) -> str:
        return self.name

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Keep the fingerprint in line with the target."""
        self.target_fingerprint = fingerprint(self.target)
        super().save(*args, **kwargs)

    @property
    def is_live(self) -> bool:
        return self.status in self.LIVE

    @property
    def is_meta_schedule(self) -> bool:
        """Whether this site's TVM can read its records; another engine's are in a form of their own."""
        return self.engine == META_SCHEDULE

    @property
    def rewrites(self) -> Rewrites:
        """How its network is computed."""
        return Rewrites.of(self.options)

    @property
    def simulator(self) -> str | None:
        """What simulates its target, if something does: its latencies are that program's wall time."""
        return simulator(self.target)

    @property
    def can_stop(self) -> bool:
        return self.status in (self.Status.QUEUED, self.Status.RUNNING)

    @property
    def can_resume(self) -> bool:
        return self.status in self.RESUMABLE and self.can_tune and (self.trials_left or 0) > 0

    @property
    def can_extend(self) -> bool:
        return self.status != self.Status.STOPPING and self.can_tune

    @property
    def can_tune(self) -> bool:
        """Whether this site tunes it. Of others' runs it has only the log."""
        return self.is_ours and not self.synthetic

    @property
    def can_be_continued(self) -> bool:
        """Whether another run can begin with all of its trials."""
        return not self.why_not_continued

    @property
    def why_not_continued(self) -> str:
        """Why no other run can begin with all of its trials; empty if one can."""
        if not self.can_tune:
            return "it wasn't tuned here"
        if not self.is_meta_schedule:
            return f"it was tuned by {self.engine}, and only MetaSchedule's runs can be"
        if self.status not in self.ENDED:
            return f"it is {self.status}, and can be once it has ended"
        return "" if self.tasks_measured else "it has no valid trial"

    def changed_options(self) -> dict[str, list[Any]]:
        """By option, its value in the run that this one continues, and here; without the seed, and what an earlier version didn't know."""
        if self.continues is None:
            return {}
        before = self.continues.options
        names = [name for name in self.options if name in before and name != "seed"]
        return {name: [before[name], self.options[name]] for name in names if self.options[name] != before[name]}

    @property
    def is_ours(self) -> bool:
        """Whether it was launched here."""
        return self.origin == self.Origin.LAUNCHED

    @property
    def measures_on(self) -> str:
        """The device that libraries of it are measured on: its own, or if somebody else tuned it, this machine's for its target."""
        return self.device or LOCAL.get(str(self.target.get("kind")), "cpu")

    @property
    def measures_here(self) -> bool:
        """Whether the machine that tunes it also measures it: neither remote devices do, nor the machines of a pool."""
        return self.machine_id is not None and not self.has_pool and not is_shared(self.device)

    @property
    def measured_by_machines(self) -> bool:
        """Whether machines of this site measure it, which tell what they are like meanwhile: the one that tunes it, or those of its pool."""
        return self.machine_id is not None and not self.synthetic and not is_shared(self.device)

    @property
    def measurers_word(self) -> str:
        """What measures it, in a word."""
        return "machines" if self.has_pool else "devices" if is_shared(self.device) else "machine"

    @property
    def is_timed(self) -> bool:
        """Whether it is recorded when trials ended."""
        return self.elapsed_s is not None

    @property
    def trials_expected(self) -> int:
        """Its budget, or without one the trials that there are; at least 1."""
        return max(1, self.trials_done if self.trials_budget is None else self.trials_budget)

    @property
    def trials_left(self) -> int | None:
        """Of its budget; None without one."""
        return None if self.trials_budget is None else self.trials_budget - self.trials_done

    @property
    def pace(self) -> Pace:
        """In which rounds it goes on."""
        budget, pool = self.trials_budget or 0, self.has_pool
        return Pace(self.engine, self.options, budget, self.tasks_chosen, self.tasks_spare, self.is_ours, pool)

    def remaining(self) -> Forecast | None:
        """For how long it will be tuned; None if that can't be told, or not yet."""
        if self.status != self.Status.RUNNING or self.trials_budget is None or self.elapsed_s is None:
            return None
        found = forecast(self._round_ends(), self.trials_budget, self.elapsed_s)
        if found is None:
            return None
        found = found.before(self._confirming_s(self.elapsed_s))
        return found if self.time_limit_s is None else found.within(self.time_limit_s - self.elapsed_s)

    def _confirming_s(self, elapsed_s: float) -> float:
        """What it will probably take to confirm its best records, or what is left of that."""
        ends = self._round_ends() if self.is_spent else []
        since_s = elapsed_s - ends[-1][1] if ends else 0.0
        return max(0.0, self.pace.confirming_s(elapsed_s) - since_s)

    @property
    def rounds_ended_at(self) -> range:
        """Numbers of the trials with which its latest rounds ended; see `Pace.rounds_ended_at`."""
        return self.pace.rounds_ended_at(self.trials_done)

    def learn_rounds(self, ended: Iterable[tuple[int, float | None]]) -> None:
        """Remember the numbers and seconds of these trials, which are `rounds_ended_at`."""
        numbers = self.rounds_ended_at
        begun = [(0, 0.0)] if 0 in numbers else []
        self._rounds = numbers, [*begun, *((number, at_s) for number, at_s in ended if at_s is not None)]

    def _round_ends(self) -> list[tuple[int, float]]:
        """Read once a round: the recorder asks with every batch."""
        numbers = self.rounds_ended_at
        if self._rounds is None or self._rounds[0] != numbers:
            ended = self.trials.filter(number__one_of=numbers).order_by("number")
            self.learn_rounds(ended.values_list("number", "at_s") if any(numbers) else [])
        return self._rounds[1] if self._rounds else []

    @property
    def network_name(self) -> str | None:
        return self.network.name if self.network else None

    @property
    def machine_name(self) -> str:
        """Empty before a machine has taken it."""
        return self.machine.name if self.machine else ""

    @property
    def has_pool(self) -> bool:
        """Whether it is measured on many machines."""
        return self.machines_wanted != 1

    def members(self) -> list[MemberDict]:
        """The machines of its pools so far; none unless it is measured on many."""
        return shown(self.pool_members.select_related("machine")) if self.has_pool else []

    def measurers(self) -> MachineQuerySet:
        """The machines that measured trials of it, by name: forgotten ones as well."""
        return Machine.everything.filter(measured=self).order_by("name")

    @property
    def network_options(self) -> dict[str, Any]:
        return self.network.options if self.network else {}

    @property
    def tuned_network(self) -> Network:
        """The network of a run that can be tuned or compiled, and so has one that can be built."""
        if self.network is None or not self.network.can_tune:
            raise ValueError(f"run {self.pk} has no network that can be built")
        return self.network

    @property
    def place(self) -> int | None:
        """How many runs come before it where it may go; None unless it is queued. For many runs, use `RunQuerySet.places`."""
        found = self._place()
        return found.ahead if found else None

    @property
    def waits(self) -> str | None:
        """What it waits for, in words; None unless it is queued."""
        found = self._place()
        return found.waits if found else None

    def _place(self) -> Place | None:
        if self.status != self.Status.QUEUED or not self.device:
            return None
        return Run.objects.places().get(self.pk, NEXT)  # It may have been taken since it was read.

    @property
    def can_delete(self) -> bool:
        """A library that is being made of the run may still prevent it."""
        return self.status in self.ENDED

    @property
    def average_speed(self) -> float | None:
        """Trials per second over the whole run, including loading and search; None before the first trial."""
        return self.trials_done / self.elapsed_s if self.trials_done and self.elapsed_s else None

    @property
    def work_dir(self) -> Path:
        """The engine's files. The engine runs what users bring, so it may leave anything there: see `tuning.beneath`.

        The name has the time of creation because a new database starts again with id 1, perhaps next to old files.
        """
        return Path(settings.VAR) / "runs" / f"{self.pk}-{self.created_at:%Y%m%dT%H%M%S.%f}"

    @property
    def record_file(self) -> Path:
        """The file whose line n is the record of trial n, in the engine's own format."""
        return self.work_dir / (meta_schedule.RECORDS if self.is_meta_schedule else RECORDS)

    @property
    def console_log(self) -> Path:
        """Output of the engine, TVM and compilers. It is where the engine can't put anything in its place."""
        return self.work_dir.with_name(f"{self.work_dir.name}.log")

    @property
    def console_log_before(self) -> Path:
        """Where earlier versions wrote the output."""
        return self.work_dir / "console.log"

    def revise(self, revision: int, **values: Any) -> bool:
        """Save an edit of name or notes unless somebody saved one since that revision; return whether it was saved.

        Either way this instance has the current name and notes afterwards.
        """
        revised = Run.objects.filter(pk=self.pk, revision=revision).update(
            **values, revision=revision + 1, edited_at=timezone.now()
        )
        self.refresh_from_db(fields=("name", "notes", "revision", "edited_by", "edited_at"))
        return revised == 1

    @contextmanager
    def _turn(self) -> Iterator[bool]:
        if not self.device:  # Somebody else measures.
            yield True
            return
        with deciding(self.device, self.taker):
            yield Run.objects.device_is_free(self.device, self.taker)

    def _on_claim(self) -> dict[str, Any]:
        fresh = {"finished_at": None, "finish_reason": None, "phase": "loading", "phase_task": None}
        return {**super()._on_claim(), "started_at": self.started_at or Now(), "machine": self.taker, **fresh}

    def _on_end(self) -> dict[str, Any]:
        return {**super()._on_end(), "phase": None, "phase_task": None, "disturbed": []}

    def _on_requeue(self) -> dict[str, Any]:
        return {**super()._on_requeue(), "queued_at": Now(), "finish_reason": None}

    def _on_abandoned(self) -> dict[str, Any]:
        if self.status == self.Status.STOPPING and not self.can_tune:
            return {"to": self.Status.STOPPED, "finished_at": self.heartbeat_at}
        if self.is_spent and self.trials_done > self.trials_failed:
            return {"to": self.Status.FINISHED, "finished_at": self.heartbeat_at, "finish_reason": "budget"}
        return {"to": self.Status.INTERRUPTED, "finished_at": self.heartbeat_at, "error": self._abandoned_why()}

    def remove_artifacts(self) -> None:
        """Remove, on this machine, what an engine that was killed has left of its builds. Its last act would have been to do so."""
        shutil.rmtree(self.work_dir / ARTIFACTS, ignore_errors=True)

    @property
    def is_spent(self) -> bool:
        """Whether all of its trials are measured, so that nothing of the tuning is missing if its engine dies now."""
        return self.trials_left == 0

    def _abandoned_why(self) -> str:
        if self.origin == self.Origin.LAUNCHED and self.machine is not None:
            return f"The worker on {self.machine} stopped responding. Resume the run to continue where it stopped."
        return ABANDONED[self.origin]

    def go_on(self, *, stopping: bool) -> bool:
        """Continue a run that somebody else tunes and that had ended here, since more of it came; return whether it goes on.

        `stopping`: they weren't told yet that they should stop.
        """
        fresh: dict[str, Any] = {"finished_at": None, "finish_reason": None, "error": None}
        fresh |= {"lease": drawn_lease(), "heartbeat_at": Now()}
        return self.move(*self.ENDED, to=self.Status.STOPPING if stopping else self.Status.RUNNING, **fresh)

    def alerts(self, tasks: Iterable[TunedTask]) -> list[Alert]:
        """What users should know now of the run's machines and tasks."""
        tasks = list(tasks)
        everyone_had_a_turn = all(task.trials for task in tasks if task.chosen and not task.is_spare)
        again = self.is_ours and self.status not in self.ENDED
        told = (task.alert(everyone_had_a_turn=everyone_had_a_turn, tried_again=again) for task in tasks)
        found = [alert for alert in told if alert]
        if slower := slower_than_known(self.begun, self.noise, live=self.is_live):
            found.insert(0, {"kind": "warm_start", "task": None, "message": slower})
        if self.is_live and self.disturbed:
            found.insert(0, {"kind": "disturbed", "task": None, "message": disturbance(self.disturbed)})
        if self.drift is not None:
            found.insert(
                0,
                {"kind": "drift", "task": None, "message": drifted(self.drift, self.measurers_word, live=self.is_live)},
            )
        return found

    @property
    def early(self) -> str:
        """Why it ended before its budget was spent, in a few words; empty if it didn't."""
        return EARLY.get(self.finish_reason or "", "") if self.status == self.Status.FINISHED else ""

    @property
    def unknown(self) -> str:
        """What stands in place of its estimate while tasks lack a latency; empty otherwise."""
        goes_on = self.status not in self.ENDED
        return unknown(self.tasks_measured, self.tasks_chosen, self.tasks_total, goes_on=goes_on)

    def to_dict(self, *, tasks: Iterable[TunedTask], places: Mapping[int, Place] | None = None) -> RunDict:
        """The run without its tasks, which are needed for the alerts. `places`, if given, saves a query for its place."""
        place = self._place() if places is None else places.get(self.pk)
        facts: RunFacts = {
            "id": self.pk,
            "name": self.name,
            "project": self.project.name,
            "revision": self.revision,
            "status": self.status,
            "engine": self.engine,
            "interpreter": self.interpreter or None,
            "origin": self.origin,
            "network": self.network_name,
            "network_options": self.network_options,
            "target": self.target,
            "device": self.device,
            "machine": self.machine_name or None,
            "chosen_machine": self.chosen_machine.name if self.chosen_machine else None,
            "priority": self.Priority(self.priority).name.lower(),
            "machines_wanted": self.machines_wanted or None,
            "machines": self.members(),
            "options": self.options,
            "versions": self.versions,
            "trials_budget": self.trials_budget,
            "time_limit_s": self.time_limit_s,
            "trials_done": self.trials_done,
            "trials_failed": self.trials_failed,
            "trials_noisy": self.trials_noisy,
            "tasks_total": self.tasks_total,
            "tasks_spare": self.tasks_spare,
            "tasks_chosen": self.tasks_chosen,
            "tasks_measured": self.tasks_measured,
            "tasks_confirmed": self.tasks_confirmed,
            "cold_bytes": self.cold_bytes,
            "estimated_latency_s": self.estimated_latency_s,
            "confirmed_latency_s": self.confirmed_latency_s,
            "noise": self.noise,
            "warm_start": self.warm_start,
            "adapted": self.adapted,
            "continues": self.continues_id,
            "phase": self.phase,
            "phase_task": self.phase_task,
            "place": place.ahead if place else None,
            "waits": place.waits if place else None,
            "elapsed_s": self.elapsed_s,
            "remaining": left.to_dict() if (left := self.remaining()) else None,
            "created_by": username(self.created_by),
            "created_at": self.created_at.isoformat(),
            "started_at": iso(self.started_at),
            "finished_at": iso(self.finished_at),
            "finish_reason": self.finish_reason,
            "error": self.error,
            "alerts": self.alerts(tasks),
            "synthetic": self.synthetic,
            "simulator": self.simulator,
            "sessions": self.sessions,
            "bad_lines": self.bad_lines,
        }
        return cast("RunDict", {**facts, "words": words(facts)})

    def to_listed_dict(self, *, tasks: Iterable[TunedTask], places: Mapping[int, Place] | None = None) -> RunDict:
        """With what users organize runs by, which a supervisor doesn't know: it read the run when it began."""
        return {
            **self.to_dict(tasks=tasks, places=places),
            "tags": self.tag_names,
            "pinned": self.pinned,
            "archived": self.archived,
            "deleted_at": iso(self.deleted_at),
        }

    @property
    def tag_names(self) -> list[str]:
        """In alphabetical order. For a run from `listed`, as of when it was read."""
        tags = getattr(self, "listed_tags", None)
        return [tag.name for tag in (self.tags.all() if tags is None else tags)]

    def to_full_dict(self) -> RunDict:
        """With its tasks and notes."""
        tasks = list(self.tasks.defer("tensorir").order_by("index"))
        shown = self.to_listed_dict(tasks=tasks)
        shown["tasks"] = [task.to_dict() for task in tasks]
        shown["changed_options"] = self.changed_options()
        shown["continued_by"] = list(
            self.continued_by.filter(deleted_at=None).order_by("pk").values_list("pk", flat=True)
        )
        return {**shown, **self.written()}

    def written(self) -> WrittenDict:
        """Name and notes, and who edited them last."""
        return {
            "name": self.name,
            "notes": self.notes,
            "revision": self.revision,
            "edited_by": username(self.edited_by),
            "edited_at": iso(self.edited_at),
        }
