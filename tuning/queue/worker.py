"""A worker: `python -m tuning.queue.worker NAME QUEUE,… [--concurrency THREADS]`.

As `celery worker`, but without the shells, monitors and colors of Celery's command line, which would stay in memory.
"""

from __future__ import annotations

import argparse
import logging
import socket
import sys

import django

from .celery import app


def main() -> None:
    """Work on the jobs of some queues until SIGTERM. The exit status is Celery's."""
    parser = argparse.ArgumentParser(prog="python -m tuning.queue.worker")
    parser.add_argument("name", help="the worker's name in logs")
    parser.add_argument("queues", type=lambda text: text.split(","), help="device.cpu, device.rpc, extract, compile, …")
    parser.add_argument(
        "--concurrency", type=int, default=1, help="jobs at once, each in a thread, since jobs wait for processes"
    )
    args = parser.parse_args()
    django.setup()
    from tuning.host import schema

    schema.require_ours()
    worker = app.Worker(
        hostname=f"{args.name}@{socket.gethostname()}",
        queues=args.queues,
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
