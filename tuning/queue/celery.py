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
REMOTE_QUEUES = f"{DEVICE_QUEUES}rpc"
"""What a worker's command line calls the queues of all trackers that its machine allows."""


def queue_of(device: str, machine: str | None = None) -> str:
    """The name of the queue of a machine's device, by default of this machine's.

    The devices of a tracker share one: by default that of all machines that allow the tracker.
    """
    if device.startswith("rpc:"):
        tracker = device.partition("/")[0]
        return f"{DEVICE_QUEUES}{machine}.{tracker}" if machine else f"{DEVICE_QUEUES}{tracker}"
    return f"{DEVICE_QUEUES}{machine or settings.MACHINE}.{device}"


def full_names(queue: str) -> list[str]:
    """The names of what the command line of this machine's worker calls `device.cpu` or `device.rpc`; others are called as they are."""
    if queue == REMOTE_QUEUES:
        trackers = [f"rpc:{name}" for name in settings.TRACKERS]
        return [queue_of(tracker, machine) for tracker in trackers for machine in (None, settings.MACHINE)]
    device = queue.removeprefix(DEVICE_QUEUES)
    return [queue if queue == device else queue_of(device)]
