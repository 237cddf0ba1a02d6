"""The Celery app: one queue per device, so that measurements on it don't disturb each other, and queues for jobs without a device."""

from __future__ import annotations

import os
import threading
from typing import Any

from celery import Celery
from celery.signals import worker_ready, worker_shutting_down
from django.conf import settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
# Django's system checks load the code of all pages, 30 MB that a worker would keep. `up`, `migrate` and the tests run them.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

app = Celery("tuneboard")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["tuning.queue"], related_name="jobs")

shutdown = threading.Event()
"""Set when the worker is told to shut down: supervisors then stop their engines, and the runs can be resumed."""


@worker_shutting_down.connect
def _set_shutdown(**_: Any) -> None:
    shutdown.set()


EXTRACT_QUEUE = "extract"
"""Extractions, which don't wait for a device."""
COMPILE_QUEUE = "compile"
"""Builds of libraries, which don't wait for a device either. Verification does: it is in the device's queue."""
WATCH_QUEUE = "watch"
"""Files that others write. Each takes a thread for as long as it is watched."""
WEBHOOK_QUEUE = "webhook"
"""Deliveries. The workers of the two queues above share this one, since they are seldom both busy."""


@worker_ready.connect
def _keep_engines_warm(sender: Any, **_: Any) -> None:
    from tuning.work.engine_process import keep_warm

    devices = [
        name.rpartition(".")[2] for name in sender.app.amqp.queues.consume_from if name.startswith(DEVICE_QUEUES)
    ]
    if devices:
        keep_warm("cuda" if any(device.startswith("cuda") for device in devices) else "llvm")


DEVICE_QUEUES = "device."
"""How the names of the devices' queues begin."""
SHARED_QUEUE = f"{DEVICE_QUEUES}rpc"
"""Remote devices share one, whoever of the machines serves it."""


def queue_of(device: str, machine: str | None = None) -> str:
    """The name of the queue of a machine's device, by default of this machine's."""
    if device.startswith("rpc:"):
        return SHARED_QUEUE
    return f"{DEVICE_QUEUES}{machine or settings.MACHINE}.{device}"


def full_name(queue: str) -> str:
    """The name of what the command line of this machine's worker calls `device.cpu`; other queues are called as they are."""
    device = queue.removeprefix(DEVICE_QUEUES)
    return queue if queue in (device, SHARED_QUEUE) else queue_of(device)
