"""The Celery app: a queue for each device, so that measurements on it don't disturb each other, and queues for what needs none."""

from __future__ import annotations

import os
import threading
from typing import Any

from celery import Celery
from celery.signals import worker_ready, worker_shutting_down

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
# Django's checks load every page's code. `up`, `migrate` and the tests make them; a worker would keep 30 MB of it.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

app = Celery("tuneboard")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["tuning.queue"], related_name="jobs")

shutdown = threading.Event()
"""Set when the worker was told to end: its supervisors stop their engines, and the runs can be resumed."""


@worker_shutting_down.connect
def _set_shutdown(**_: Any) -> None:
    shutdown.set()


EXTRACT_QUEUE = "extract"
"""Of what must not wait until a device is free: the extraction of tasks."""
COMPILE_QUEUE = "compile"
"""The same, of the building of libraries; they are proven in the device's queue."""

WEBHOOK_QUEUE = "webhook"
"""Of what other sites are told. The workers of both queues above take it beside, since seldom both are busy."""


@worker_ready.connect
def _keep_engines_warm(sender: Any, **_: Any) -> None:
    from tuning.work.engine_process import keep_warm

    devices = [
        name.removeprefix(queue_of("")) for name in sender.app.amqp.queues.consume_from if name.startswith(queue_of(""))
    ]
    if devices:
        keep_warm("cuda" if any(device.startswith("cuda") for device in devices) else "llvm")


def queue_of(device: str) -> str:
    """The name of the device's queue; one for all that are elsewhere."""
    return f"device.{device.partition(':')[0] if device.startswith('rpc:') else device}"
