"""Units of Celery work. A message is a hint: the database says what is to be done, and the sweep sends a lost message again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from django.db.models import QuerySet
from kombu.exceptions import OperationalError as BrokerError
from redis.exceptions import RedisError

from tuning.host.devices import is_remote
from tuning.host.reachable import DATABASE_OUTAGE
from tuning.models import Compilation, Delivery, Extraction, Import, Queued, Run
from tuning.notify import webhooks
from tuning.work import importing
from tuning.work.compiling import carry_out
from tuning.work.elsewhere import watching
from tuning.work.extracting import extract
from tuning.work.supervisor import supervise

from .celery import COMPILE_QUEUE, EXTRACT_QUEUE, WATCH_QUEUE, WEBHOOK_QUEUE, app, queue_of, shutdown

logger = logging.getLogger(__name__)
Row = TypeVar("Row", bound=Queued)


@app.task(name="tuning.tune")
def tune(run_id: int) -> None:
    _work_on(Run.objects.all(), run_id, _tune, _claim_in_turn)


@app.task(name="tuning.watch")
def watch_file(run_id: int) -> None:
    """Follow a run's file for as long as it is watched."""
    _work_on(Run.objects.all(), run_id, lambda row: watching.watch(row, shutdown), watching.claim)


@app.task(name="tuning.compile")
def compile_library(compilation_id: int) -> None:
    """Carry out the next stage of a compilation."""
    _work_on(Compilation.objects.shown(), compilation_id, _compile, _claim_in_turn)


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


def enqueue(row: Run | Compilation | Extraction | Import | Delivery) -> None:
    """Tell a worker of the queued row. If the broker can't be reached, the sweep does it later."""
    task, queue = _job_of(row)
    try:
        task.apply_async(args=(row.pk,), queue=queue, retry=False)
    except (BrokerError, RedisError, OSError) as error:
        logger.warning("%s %s stays queued until the broker answers again: %s", type(row).__name__, row.pk, error)
    else:
        row.announced()


def _job_of(row: Run | Compilation | Extraction | Import | Delivery) -> tuple[Any, str]:
    """The Celery task that works on the row, and its queue."""
    if isinstance(row, Run):
        return (watch_file, WATCH_QUEUE) if row.origin == Run.Origin.WATCHED else (tune, queue_of(row.device))
    if isinstance(row, Compilation):
        return compile_library, COMPILE_QUEUE if row.stage == row.Stage.BUILD else queue_of(row.device)
    if isinstance(row, Extraction):
        return extract_tasks, EXTRACT_QUEUE
    if isinstance(row, Import):
        return import_logs, EXTRACT_QUEUE
    return deliver, WEBHOOK_QUEUE


def _work_on(
    rows: QuerySet[Row], pk: int, work: Callable[[Row], str], claim: Callable[[Row], bool] = lambda row: row.claim()
) -> None:
    """Claim the row and work on it until it ends; leave it alone if it was deleted, ended or claimed meanwhile.

    If the database is down the job ends quietly: the row still says what is to be done, and the sweep announces it again.
    """
    name = rows.model.__name__
    try:
        row = rows.filter(pk=pk).first()
        if row is not None and claim(row):
            logger.info("%s %s is %s.", name, pk, work(row))
    except DATABASE_OUTAGE as error:
        logger.warning("%s %s waits for the database: %s", name, pk, str(error).strip())


def _claim_in_turn(row: Run | Compilation) -> bool:
    """Wait for the row's device and claim both.

    Remote devices share one worker, whose threads don't wait: they would keep other devices from their runs.
    """
    return row.wait_and_claim(shutdown, wait=not is_remote(row.device))


def _tune(run: Run) -> str:
    status = supervise(run, shutdown)
    _enqueue_next(run.device)
    return status


def _import(row: Import) -> str:
    return importing.carry_out(row, importing.uploaded(row), shutdown)


def _compile(compilation: Compilation) -> str:
    """A library that was built is enqueued to be verified, which is a job of the run's device."""
    device = compilation.device
    status = carry_out(compilation, shutdown)
    if shutdown.is_set():
        return status
    if built := Compilation.objects.filter(pk=compilation.pk, status=Compilation.Status.QUEUED).first():
        enqueue(built)
    else:
        _enqueue_next(device)
    return status


def _enqueue_next(device: str) -> None:
    """Of the runs and proofs that wait for a remote device, tell a worker of the first: none of its threads waits for it."""
    if shutdown.is_set() or not is_remote(device):
        return
    runs = Run.objects.filter(device=device, status=Run.Status.QUEUED).order_by("queued_at", "pk")[:1]
    proofs = Compilation.objects.waiting_for(device).order_by("queued_at", "pk")[:1]
    if waiting := min([*runs, *proofs], key=lambda row: row.queued_at, default=None):
        enqueue(waiting)
