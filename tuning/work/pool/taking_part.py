"""A machine takes part in a run's pool: claims its membership, starts the member's process, and ends it when it is time."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time

import msgspec
from django.conf import settings
from django.db import connection

from tuning.host.reachable import DATABASE_OUTAGE
from tuning.models import Machine, PoolMember, Run, deciding
from tuning.notify.announce import announce_status

from .measuring import forked
from .member import Part

logger = logging.getLogger(__name__)
MODULE = "tuning.work.pool.member"
RENEW_S = 3.0
OUT_OF_REACH_S = 20.0
"""A machine that can't reach the database for this long leaves, before its device is given to somebody else."""
END_S = 45.0
"""How long what is in hand may take; after that the process is killed, and the supervisor has it measured elsewhere."""
SHUTDOWN_S = 3.0
"""The same at shutdown: `up` kills a worker after 10 s."""


def claim(membership: PoolMember) -> bool:
    """Take the device for the run's pool; False if it isn't free, or the invitation doesn't hold any more."""
    machine, device = membership.machine, membership.device
    with deciding(device, machine):
        others = Run.objects.on_device(device, machine).exclude(pk=membership.run_id)
        beside = Run.objects.measured_beside(device, machine)
        if others.exists() or beside.exists() or PoolMember.objects.hold(device, machine):
            return False
        return membership.join()


def take_part(membership: PoolMember, shutdown: threading.Event, why: str = "Its worker was shut down.") -> str:
    """Take part in the pool with a claimed membership until the end. Returns its state then. `why` it leaves at shutdown."""
    with forked() as measuring:
        part = Part(
            member=membership.pk,
            name=membership.machine.name,
            pool=membership.pool,
            broker=settings.CELERY_BROKER_URL,
            redis=settings.REDIS_URL,
            measuring=measuring,
        )
        command = [sys.executable, "-m", MODULE, str(membership.pk)]
        inherited = measuring.file_descriptors() if measuring else ()
        process = subprocess.Popen(command, stdin=subprocess.PIPE, cwd=settings.BASE_DIR, pass_fds=inherited)
    with process:
        assert process.stdin
        try:
            process.stdin.write(msgspec.json.encode(part) + b"\n")
            process.stdin.flush()
            reason = _watch(process, membership, shutdown, why)
        finally:
            process.kill()
    membership.move(*PoolMember.ACTIVE, to=PoolMember.State.LEFT, reason=reason)
    membership.refresh_from_db(fields=("state",))
    if ended := Run.objects.filter(pk=membership.run_id, status__in=Run.ENDED).first():
        announce_status(ended)  # Its supervisor, which tells of members, is gone.
    return membership.state


def _watch(
    process: subprocess.Popen[bytes], membership: PoolMember, shutdown: threading.Event, at_shutdown: str
) -> str:
    """Renew the membership until the process ends; return why it was ended here, if it was."""
    reached, told, reason = time.monotonic(), 0.0, ""
    while process.poll() is None:
        now = time.monotonic()
        if told and now > told + (SHUTDOWN_S if shutdown.is_set() else END_S):
            logger.warning("Member %s didn't end: it is killed.", membership.pk)
            break
        try:
            why = at_shutdown if shutdown.is_set() else _why_to_leave(membership)
            reached = now
        except DATABASE_OUTAGE as error:
            connection.close()
            why = f"The database couldn't be reached: {error}" if now > reached + OUT_OF_REACH_S else None
        if why is not None and not told:
            told, reason = now, why
            process.terminate()
        for _ in range(round(RENEW_S / 0.1)):
            if process.poll() is not None or (shutdown.is_set() and not told):
                break
            time.sleep(0.1)
    if not told and process.returncode:
        return f"Its process ended with status {process.returncode}."
    return reason


def _why_to_leave(membership: PoolMember) -> str | None:
    """None to go on."""
    if not membership.renew():
        return ""  # The run has no use for it.
    if Machine.objects.filter(pk=membership.machine_id, draining_at__isnull=False).exists():
        return "It is being drained."
    return None
