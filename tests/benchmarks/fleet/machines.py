"""The workers of other machines, as threads of one process: `python -m tests.benchmarks.fleet.machines NAME …`.

Each line of stdin is the key of a membership to which its machine is invited. It does what a Celery worker's job does, with the
member in a process of its own, and keeps the machines' heartbeats. Everything ends when stdin closes.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from typing import NoReturn

import django

BEAT_S = 5.0


def main(names: Sequence[str]) -> None:
    """Take part in pools until stdin closes."""
    from tuning.work.pool import taking_part

    taking_part.MODULE = "tests.benchmarks.fleet.member"
    threading.Thread(target=_beat, args=(names,), daemon=True).start()
    members = []
    for line in sys.stdin:
        members.append(threading.Thread(target=_take_part, args=(int(line),)))
        members[-1].start()
    for member in members:
        member.join()


def _take_part(key: int) -> None:
    from django.db import connection

    from tuning.queue import jobs

    try:
        jobs.take_part.run(key)
    finally:
        connection.close()


def _beat(names: Sequence[str]) -> NoReturn:
    from django.db.models.functions import Now

    from tuning.models import Machine

    while True:
        Machine.objects.filter(name__in=names).update(heartbeat_at=Now())
        time.sleep(BEAT_S)


if __name__ == "__main__":
    django.setup()
    main(sys.argv[1:])
