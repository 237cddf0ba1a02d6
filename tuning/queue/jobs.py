"""Units of Celery work. A message is a hint: the database says what is to be done, and the sweep sends a lost message again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, Union

from django.conf import settings
from django.db.models import QuerySet
from kombu.exceptions import OperationalError as BrokerError
from redis.exceptions import RedisError

from tuning.host.devices import is_remote
from tuning.host.machine import identity
from tuning.host.machine.load import disk_free
from tuning.host.reachable import DATABASE_OUTAGE
from tuning.models import FULL, Compilation, Delivery, Extraction, Import, Machine, PoolMember, Queued, Run, SideBySide
from tuning.notify import webhooks
from tuning.notify.announce import announce_status
from tuning.work import importing, side_by_side
from tuning.work.compiling import carry_out
from tuning.work.elsewhere import watching
from tuning.work.extracting import extract
from tuning.work.pool import taking_part
from tuning.work.supervisor import supervise

from .celery import COMPILE_QUEUE, EXTRACT_QUEUE, WATCH_QUEUE, WEBHOOK_QUEUE, app, queue_of, shutdown

logger = logging.getLogger(__name__)
Row = TypeVar("Row", bound=Queued)
OnDevice = Union[Run, Compilation, SideBySide]
"""What takes a device for as long as it is worked on."""
PAUSE_S = 1.0
"""How often a worker looks whether a device is free that a foreground command has."""


@app.task(name="tuning.tune")
def tune(run_id: int) -> None:
    """Work on what waits for the run's device on this machine. The run is why: it need not be the next one."""
    with _quietly("Run", run_id):
        if run := Run.objects.filter(pk=run_id).first():
            serve(run.device)


@app.task(name="tuning.take_part")
def take_part(member_id: int) -> None:
    """Measure for a run that has invited this machine, unless something else has come between."""
    with _quietly("PoolMember", member_id):
        found = PoolMember.objects.select_related("machine").filter(pk=member_id, state=PoolMember.State.INVITED)
        member = found.first()
        if member is not None and _may_take(member.machine) and taking_part.claim(member):
            logger.info("%s: %s.", member, taking_part.take_part(member, shutdown))
            serve(member.device)


@app.task(name="tuning.watch")
def watch_file(run_id: int) -> None:
    """Follow a run's file for as long as it is watched."""
    _work_on(Run.objects.all(), run_id, lambda row: watching.watch(row, shutdown), watching.claim)


@app.task(name="tuning.compile")
def compile_library(compilation_id: int) -> None:
    """Build a library, or work on what waits for the device that it is measured on."""
    rows = Compilation.objects.shown()
    with _quietly("Compilation", compilation_id):
        row = rows.filter(pk=compilation_id).first()
        if row is not None and row.stage != row.Stage.BUILD:
            serve(row.device)
        else:
            _work_on(rows, compilation_id, _compile)


@app.task(name="tuning.measure_side_by_side")
def measure_side_by_side(key: int) -> None:
    """Work on what waits for the device that it is measured on."""
    with _quietly("SideBySide", key):
        if row := SideBySide.objects.filter(pk=key).first():
            serve(row.device)


@app.task(name="tuning.extract")
def extract_tasks(extraction_id: int) -> None:
    _work_on(Extraction.objects.select_related("network"), extraction_id, lambda row: extract(row, shutdown))


@app.task(name="tuning.import_logs")
def import_logs(import_id: int) -> None:
    """Make runs of uploaded logs."""
    _work_on(Import.objects.select_related("project", "created_by"), import_id, _import)


@app.task(name="tuning.deliver")
def deliver(delivery_id: int) -> None:
    """Make one attempt at a delivery."""
    _work_on(Delivery.objects.all(), delivery_id, webhooks.send)


def invite(member: PoolMember) -> None:
    """Tell the machine's worker that a run wants it. If the broker can't be reached, it is invited again later."""
    try:
        take_part.apply_async(args=(member.pk,), queue=queue_of(member.device, member.machine.name), retry=False)
    except (BrokerError, RedisError, OSError) as error:
        logger.warning("%s wasn't invited: %s", member.machine, error)


def enqueue(row: OnDevice | Extraction | Import | Delivery) -> None:
    """Tell workers of the queued row. If the broker can't be reached, the sweep does it later.

    Of what waits for a device, only machines are told that could take it now. The others look again when they are done.
    """
    task, queues = _job_of(row)
    try:
        for queue in queues:
            task.apply_async(args=(row.pk,), queue=queue, retry=False)
    except (BrokerError, RedisError, OSError) as error:
        logger.warning("%s %s stays queued until the broker answers again: %s", type(row).__name__, row.pk, error)
    else:
        row.announced()


def _job_of(row: OnDevice | Extraction | Import | Delivery) -> tuple[Any, list[str]]:
    """The Celery task that works on the row, and the queues of those who may."""
    if isinstance(row, Run):
        return (watch_file, [WATCH_QUEUE]) if row.origin == Run.Origin.WATCHED else (tune, _queues(row, row.device))
    if isinstance(row, Compilation):
        build = row.stage == row.Stage.BUILD
        return compile_library, [COMPILE_QUEUE] if build else _queues(row, row.device)
    if isinstance(row, SideBySide):
        return measure_side_by_side, _queues(row, row.device)
    if isinstance(row, Extraction):
        return extract_tasks, [EXTRACT_QUEUE]
    if isinstance(row, Import):
        return import_logs, [EXTRACT_QUEUE]
    return deliver, [WEBHOOK_QUEUE]


def _queues(row: OnDevice, device: str) -> list[str]:
    """The device's queues of machines that are free and that the row fits."""
    if is_remote(device):
        chosen = row.chosen_machine if isinstance(row, Run) else None
        return [queue_of(device, chosen.name if chosen else None)]
    rows: Any = type(row).objects
    free = [machine for _, machine in Run.objects.free(device)]
    fit = [machine for machine in free if rows.waiting_for(device, machine).filter(pk=row.pk).exists()]
    return [queue_of(device, machine.name if machine else None) for machine in fit]


def _work_on(
    rows: QuerySet[Row], pk: int, work: Callable[[Row], str], claim: Callable[[Row], bool] = lambda row: row.claim()
) -> None:
    """Claim the row and work on it until it ends; leave it alone if it was deleted, ended or claimed meanwhile."""
    name = rows.model.__name__
    with _quietly(name, pk):
        row = rows.filter(pk=pk).first()
        if row is not None and claim(row):
            logger.info("%s %s is %s.", name, pk, work(row))


@contextmanager
def _quietly(name: str, pk: int) -> Iterator[None]:
    """If the database is down a job ends quietly: the row still says what is to be done, and the sweep announces it again."""
    try:
        yield
    except DATABASE_OUTAGE as error:
        logger.warning("%s %s waits for the database: %s", name, pk, str(error).strip())


def serve(device: str) -> None:
    """Work on what waits for this machine's device, one after another, until nothing is left or the worker shuts down.

    Remote devices share workers, whose threads neither wait for one nor go on with it: they would keep other devices from their runs.
    """
    while not shutdown.is_set():
        row, free = _next(device)
        if row is not None:
            logger.info("%s %s is %s.", type(row).__name__, row.pk, _carry_out(row))
            if is_remote(device):
                _enqueue_next(device)
        done = row is None and (free or shutdown.wait(PAUSE_S))
        if done or is_remote(device):
            return


def _next(device: str) -> tuple[OnDevice | None, bool]:
    """What was claimed, if anything, and whether nothing is left for now; otherwise something waits until the device is free."""
    machine = _this_machine()
    while (row := _waiting(device, machine)) is not None and not shutdown.is_set():
        row.taker = machine
        if row.claim():
            return row, False
        if row.status == row.QUEUED:  # Somebody in the foreground has the device.
            return None, False
    return None, True


def _waiting(device: str, machine: Machine | None) -> OnDevice | None:
    """Whose turn it is: a proof or a side by side, which take minutes, if it was queued before the run whose turn it is."""
    if machine is not None and not _may_take(machine):
        return None
    run = Run.objects.next_for(device, machine)
    short: list[QuerySet[Any]] = [
        Compilation.objects.shown().waiting_for(device, machine),
        SideBySide.objects.waiting_for(device, machine),
    ]
    firsts = [rows.order_by("queued_at", "pk").first() for rows in short]
    waiting: list[OnDevice] = [one for one in (run, *firsts) if one is not None]
    return min(waiting, key=lambda one: one.queued_at, default=None)


def _may_take(machine: Machine) -> bool:
    """The site learns of a full disk seconds later, and until then one run after the other would fail here."""
    return not (machine.is_draining or machine.trouble or disk_free(settings.VAR) < FULL)


def _this_machine() -> Machine | None:
    """None for a worker whose machine isn't registered."""
    return Machine.objects.filter(key=identity.key()).first()


def _carry_out(row: OnDevice) -> str:
    if isinstance(row, Run):
        return _tune(row)
    return _compile(row) if isinstance(row, Compilation) else side_by_side.carry_out(row, shutdown)


def _tune(run: Run) -> str:
    status = supervise(run, shutdown, invite)
    if status == Run.Status.INTERRUPTED and run.drained_at is not None:
        return _moved(run) or status
    return status


def _moved(run: Run) -> str | None:
    """Queue a run again that left a machine that is being drained, if another one may take it."""
    if run.chosen_machine_id is not None or is_remote(run.device):
        return None
    others = Machine.objects.taking_work()
    fits = any(run.needs is None or run.needs.met_by(other) for other in others if run.device in other.devices)
    if not fits or not run.requeue(Run.Status.INTERRUPTED):
        return None
    announce_status(run)
    enqueue(run)
    return run.status


def _import(row: Import) -> str:
    return importing.carry_out(row, importing.uploaded(row), shutdown)


def _compile(compilation: Compilation) -> str:
    """A library that was built is enqueued to be verified, which is a job of the run's device."""
    status = carry_out(compilation, shutdown)
    if shutdown.is_set():
        return status
    if built := Compilation.objects.filter(pk=compilation.pk, status=Compilation.Status.QUEUED).first():
        enqueue(built)
    return status


def _enqueue_next(device: str) -> None:
    """Of the runs and proofs that wait for a remote device, tell a worker of the next."""
    if not shutdown.is_set() and (waiting := _waiting(device, None)) is not None:
        enqueue(waiting)
