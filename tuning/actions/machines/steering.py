"""What admins do with machines: drain, resume and forget them, and have them measured again."""

from __future__ import annotations

from django.db.models import Q
from django.db.models.functions import Now

from tuning import audit
from tuning.models import LOST, Machine, Run
from tuning.validation import Conflict


def drain(machine: Machine) -> Machine:
    """Let it finish the trial in hand and take no more. Its run ends `interrupted` and can be resumed. Raises `Conflict`."""
    with audit.act("machine.drain", machine):
        if not Machine.objects.filter(pk=machine.pk, draining_at=None).update(draining_at=Now()):
            raise Conflict(f"{machine} is already being drained.")
    machine.refresh_from_db()
    return machine


def resume(machine: Machine) -> Machine:
    """Let it take work again. Raises `Conflict`."""
    with audit.act("machine.resume", machine):
        if not Machine.objects.filter(pk=machine.pk, draining_at__isnull=False).update(draining_at=None):
            raise Conflict(f"{machine} isn't being drained.")
    machine.refresh_from_db()
    return machine


def measure_again(machine: Machine) -> Machine:
    """Have its rooflines measured again, each by the next run for its target that nobody disturbs. Raises `Conflict`."""
    with audit.act("machine.measure_again", machine):
        if not machine.rooflines.exists():
            raise Conflict(f"{machine} has no roofline yet: its next run on the CPU measures it.")
        if not machine.rooflines.all().ask():
            raise Conflict(f"{machine} is to be measured again already.")
    return machine


def forget(machine: Machine) -> None:
    """Remove it from the site; its runs keep its name. If it joins again, it is back. Raises `Conflict`."""
    with audit.act("machine.forget", machine):
        machine.refresh_from_db()
        if not machine.can_forget:
            raise Conflict(
                f"{machine} is {machine.state}: drain it, or end its `up` or `join`, before it is forgotten."
            )
        if waiting := Run.objects.filter(chosen_machine=machine, status=Run.Status.QUEUED).count():
            runs = "1 queued run waits" if waiting == 1 else f"{waiting:,} queued runs wait"
            raise Conflict(f"{runs} for {machine} alone: stop them first, or bring it back.")
        gone = Q(draining_at__isnull=False) | Q(heartbeat_at__lt=Now() - LOST)
        if not Machine.objects.filter(gone, pk=machine.pk).update(forgotten_at=Now(), draining_at=None):
            raise Conflict(f"{machine} has just come back.")
