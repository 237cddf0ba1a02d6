"""Units of Celery work. A message is a hint: the database says what is to be done, and a lost one is sent again."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import InterfaceError, OperationalError
from django.utils import timezone
from kombu.exceptions import OperationalError as BrokerError
from redis.exceptions import RedisError

from tuning.host.devices import is_remote
from tuning.models import Compilation, Delivery, Extraction, Run
from tuning.notify import webhooks
from tuning.work.compiling import carry_out
from tuning.work.extracting import extract
from tuning.work.supervisor import claim, supervise

from .celery import COMPILE_QUEUE, EXTRACT_QUEUE, WEBHOOK_QUEUE, app, queue_of, shutdown

logger = logging.getLogger(__name__)


@contextmanager
def _patient(kind: str, pk: int) -> Iterator[None]:
    """A database that is away ends a job quietly: what it was to do still stands there, and the sweep sends it again."""
    try:
        yield
    except (OperationalError, InterfaceError) as error:
        logger.warning("%s %s waits for the database: %s", kind, pk, str(error).strip())


def _send(task: Any, row: Run | Compilation | Extraction | Delivery, queue: str) -> None:
    """Tell the queue's workers. When the broker can't be reached the sweep tells them later."""
    try:
        task.apply_async(args=(row.pk,), queue=queue, retry=False)
    except (BrokerError, RedisError, OSError) as error:
        logger.warning("%s %s stays queued until the broker answers again: %s", type(row).__name__, row.pk, error)
    else:
        type(row).objects.filter(pk=row.pk).update(enqueued_at=timezone.now())


@app.task(name="tuning.tune")
def tune(run_id: int) -> None:
    """Tune a queued run; one that was deleted, stopped or taken meanwhile is left alone."""
    with _patient("Run", run_id):
        run = Run.objects.filter(pk=run_id).first()
        # A thread that waited for a device elsewhere would keep runs of other devices from theirs.
        if run is not None and claim(run, shutdown, wait=not is_remote(run.device)):
            logger.info("Run %s ended %s.", run_id, supervise(run, shutdown))
            if is_remote(run.device) and not shutdown.is_set():
                _tell_of_next(run.device)


def _tell_of_next(device: str) -> None:
    """The first of the runs and proofs that wait for the device."""
    runs = Run.objects.filter(device=device, status=Run.Status.QUEUED).order_by("queued_at", "pk")[:1]
    proofs = Compilation.objects.waiting_for(device).order_by("queued_at", "pk")[:1]
    if following := min([*runs, *proofs], key=lambda one: one.queued_at, default=None):
        (enqueue if isinstance(following, Run) else enqueue_compilation)(following)


@app.task(name="tuning.compile")
def compile_library(compilation_id: int) -> None:
    """Do the next stage of a queued compilation; one that was deleted, cancelled or taken meanwhile is left alone."""
    with _patient("Compilation", compilation_id):
        compilation = Compilation.objects.shown().filter(pk=compilation_id).first()
        if compilation is None:
            return
        device = compilation.run.device
        if compilation.wait_and_claim(shutdown, wait=not is_remote(device)):
            logger.info("Compilation %s ended %s.", compilation_id, carry_out(compilation, shutdown))
            _go_on(compilation_id, device)


def _go_on(compilation_id: int, device: str) -> None:
    if shutdown.is_set():
        return
    if built := Compilation.objects.filter(pk=compilation_id, status=Compilation.Status.QUEUED).first():
        enqueue_compilation(built)
    elif is_remote(device):
        _tell_of_next(device)


def enqueue_compilation(compilation: Compilation) -> None:
    """Tell the worker that builds, or those of the run's device."""
    building = compilation.stage == Compilation.Stage.BUILD
    _send(compile_library, compilation, COMPILE_QUEUE if building else queue_of(compilation.run.device))


@app.task(name="tuning.extract")
def extract_tasks(extraction_id: int) -> None:
    """Extract the tasks of a queued extraction; one that was deleted or taken meanwhile is left alone."""
    with _patient("Extraction", extraction_id):
        extraction = Extraction.objects.select_related("network").filter(pk=extraction_id).first()
        if extraction is not None and extraction.claim():
            logger.info("Extraction %s ended %s.", extraction_id, extract(extraction, shutdown))


def enqueue_extraction(extraction: Extraction) -> None:
    """Tell the worker that extracts."""
    _send(extract_tasks, extraction, EXTRACT_QUEUE)


@app.task(name="tuning.deliver")
def deliver(delivery_id: int) -> None:
    """Try a delivery once; one that was taken, sent or given up meanwhile is left alone."""
    with _patient("Delivery", delivery_id):
        delivery = Delivery.objects.filter(pk=delivery_id).first()
        if delivery is not None and delivery.claim():
            webhooks.send(delivery)


def enqueue_delivery(delivery: Delivery) -> None:
    """Tell a worker that sends."""
    _send(deliver, delivery, WEBHOOK_QUEUE)


def enqueue(run: Run) -> None:
    """Tell the workers of the run's device."""
    _send(tune, run, queue_of(run.device))
