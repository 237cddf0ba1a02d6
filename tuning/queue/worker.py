"""A worker: `python -m tuning.queue.worker NAME QUEUE,… [--concurrency THREADS] [--alive FILE]`.

As `celery worker`, but without the shells, monitors and colors of Celery's command line, which would stay in memory.
"""

from __future__ import annotations

import argparse
import logging
import socket
import sys
from pathlib import Path
from typing import Any

import django
from celery import bootsteps

from .celery import app, full_names

PULSE_S = 5.0
"""How often a health check can expect the file of `--alive` to be touched, in seconds."""


class Pulse(bootsteps.StartStopStep):
    """Touches a file from the loop that takes jobs. While the worker can't reach the broker, there is no file."""

    requires = ("celery.worker.consumer.tasks:Tasks",)
    file: Path

    def start(self, parent: Any) -> None:
        self.file.touch()
        self.timer = parent.timer.call_repeatedly(PULSE_S, self.file.touch)

    def stop(self, parent: Any) -> None:  # noqa: ARG002
        self.timer.cancel()
        self.file.unlink(missing_ok=True)


def main() -> None:
    """Work on the jobs of some queues until SIGTERM. The exit status is Celery's."""
    parser = argparse.ArgumentParser(prog="python -m tuning.queue.worker")
    parser.add_argument("name", help="the worker's name in logs")
    parser.add_argument("queues", type=lambda text: text.split(","), help="device.cpu, device.rpc, extract, compile, …")
    parser.add_argument(
        "--concurrency", type=int, default=1, help="jobs at once, each in a thread, since jobs wait for processes"
    )
    parser.add_argument("--alive", type=Path, metavar="FILE", help="touch it while jobs are taken, for health checks")
    args = parser.parse_args()
    django.setup()
    from tuning.host import schema

    schema.require_ours()
    if args.alive:
        Pulse.file = args.alive
        app.steps["consumer"].add(Pulse)
    worker = app.Worker(
        hostname=f"{args.name}@{socket.gethostname()}",
        queues=[name for queue in args.queues for name in full_names(queue)],
        concurrency=args.concurrency,
        pool_cls="threads",
        loglevel=logging.INFO,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
    )
    worker.start()
    sys.exit(worker.exitcode)


if __name__ == "__main__":
    main()
