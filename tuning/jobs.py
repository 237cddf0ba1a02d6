"""Units of Celery work. A message is a hint: the database says what is to be done, and a lost one is sent again."""

from __future__ import annotations

import logging

from django.db import InterfaceError, OperationalError
from django.utils import timezone
from kombu.exceptions import OperationalError as BrokerError
from redis.exceptions import RedisError

from . import webhooks
from .celery import COMPILE_QUEUE, EXTRACT_QUEUE, WEBHOOK_QUEUE, app, queue_of, shutdown
from .compiling import carry_out
from .devices import is_remote
from .extracting import extract
from .models import Compilation, Delivery, Extraction, Run
from .supervisor import claim, supervise

logger = logging.getLogger(__name__)


@app.task(name="tuning.tune")
def tune(run_id: int) -> None:
    """Tune a queued run; one that was deleted, stopped or taken meanwhile is left alone."""
    try:
        run = Run.objects.filter(pk=run_id).first()
        # A thread that waited for a device elsewhere would keep runs of other devices from theirs.
        if run is not None and claim(run, shutdown, wait=not is_remote(run.device)):
            logger.info("Run %s ended %s.", run_id, supervise(run, shutdown))
            if is_remote(run.device) and not shutdown.is_set():
                _tell_of_next(run.device)
    except (OperationalError, InterfaceError) as error:
        logger.warning("Run %s waits for the database: %s", run_id, str(error).strip())


def _tell_of_next(device: str) -> None:
    """The first of the runs and proofs that wait for the device."""
    runs = Run.objects.filter(device=device, status=Run.Status.QUEUED).order_by("queued_at", "pk")[:1]
    proofs = Compilation.objects.waiting_for(device).order_by("queued_at", "pk")[:1]
    if following := min([*runs, *proofs], key=lambda one: one.queued_at, default=None):
        (enqueue if isinstance(following, Run) else enqueue_compilation)(following)


@app.task(name="tuning.compile")
def compile_library(compilation_id: int) -> None:
    """Do the next stage of a queued compilation; one that was deleted, cancelled or taken meanwhile is left alone."""
    try:
        compilation = Compilation.objects.shown().filter(pk=compilation_id).first()
        if compilation is None:
            return
        device = compilation.run.device
        if compilation.wait_and_claim(shutdown, wait=not is_remote(device)):
            logger.info("Compilation %s ended %s.", compilation_id, carry_out(compilation, shutdown))
            _go_on(compilation_id, device)
    except (OperationalError, InterfaceError) as error:
        logger.warning("Compilation %s waits for the database: %s", compilation_id, str(error).strip())


def _go_on(compilation_id: int, device: str) -> None:
    if shutdown.is_set():
        return
    if built := Compilation.objects.filter(pk=compilation_id, status=Compilation.Status.QUEUED).first():
        enqueue_compilation(built)
    elif is_remote(device):
        _tell_of_next(device)


def enqueue_compilation(compilation: Compilation) -> None:
    """Tell the worker that builds, or that of the run's device. When the broker can't be reached the sweep tells it later."""
    building = compilation.stage == Compilation.Stage.BUILD
    queue = COMPILE_QUEUE if building else queue_of(compilation.run.device)
    try:
        compile_library.apply_async(args=(compilation.pk,), queue=queue, retry=False)
    except (BrokerError, RedisError, OSError) as error:
        logger.warning("Compilation %s stays queued until the broker answers again: %s", compilation.pk, error)
    else:
        Compilation.objects.filter(pk=compilation.pk).update(enqueued_at=timezone.now())


@app.task(name="tuning.extract")
def extract_tasks(extraction_id: int) -> None:
    """Extract the tasks of a queued extraction; one that was deleted or taken meanwhile is left alone."""
    try:
        extraction = Extraction.objects.select_related("network").filter(pk=extraction_id).first()
        if extraction is not None and extraction.claim():
            logger.info("Extraction %s ended %s.", extraction_id, extract(extraction, shutdown))
    except (OperationalError, InterfaceError) as error:
        logger.warning("Extraction %s waits for the database: %s", extraction_id, str(error).strip())


def enqueue_extraction(extraction: Extraction) -> None:
    """Tell the worker that extracts. When the broker can't be reached the sweep tells it later."""
    try:
        extract_tasks.apply_async(args=(extraction.pk,), queue=EXTRACT_QUEUE, retry=False)
    except (BrokerError, RedisError, OSError) as error:
        logger.warning("Extraction %s stays queued until the broker answers again: %s", extraction.pk, error)
    else:
        Extraction.objects.filter(pk=extraction.pk).update(enqueued_at=timezone.now())


@app.task(name="tuning.deliver")
def deliver(delivery_id: int) -> None:
    """Try a delivery once; one that was taken, sent or given up meanwhile is left alone."""
    try:
        delivery = Delivery.objects.filter(pk=delivery_id).first()
        if delivery is not None and delivery.claim():
            webhooks.send(delivery)
    except (OperationalError, InterfaceError) as error:
        logger.warning("Delivery %s waits for the database: %s", delivery_id, str(error).strip())


def enqueue_delivery(delivery: Delivery) -> None:
    """Tell a worker that sends. When the broker can't be reached the sweep tells it later."""
    try:
        deliver.apply_async(args=(delivery.pk,), queue=WEBHOOK_QUEUE, retry=False)
    except (BrokerError, RedisError, OSError) as error:
        logger.warning("Delivery %s waits until the broker answers again: %s", delivery.pk, error)
    else:
        Delivery.objects.filter(pk=delivery.pk).update(enqueued_at=timezone.now())


def enqueue(run: Run) -> None:
    """Tell the workers of the run's device. When the broker can't be reached the sweep tells them later."""
    try:
        tune.apply_async(args=(run.pk,), queue=queue_of(run.device), retry=False)
    except (BrokerError, RedisError, OSError) as error:
        logger.warning("Run %s stays queued until the broker answers again: %s", run.pk, error)
    else:
        Run.objects.filter(pk=run.pk).update(enqueued_at=timezone.now())
