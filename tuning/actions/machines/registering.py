"""A machine's entry in the site: made when its `up` or `join` starts, and kept alive while that runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from django.conf import settings
from django.db import Error, IntegrityError, connection, transaction
from django.db.models import Value
from django.db.models.functions import Coalesce, Now

from tuning.host import targets
from tuning.host.machine import identity
from tuning.host.machine.load import Sampler
from tuning.host.reachable import one_line
from tuning.models import FULL, LOST, Machine, Run
from tuning.models.fleet import SHARED
from tuning.validation import Busy, Invalid

EVERY_S = 5.0
"""How often the heartbeat is renewed. A machine is lost after six that didn't come."""
LOOK_S = 1.0
"""How often it is looked whether a machine of the same name is gone."""
FILES = "files"
"""The TUNEBOARD_STORAGE that no other machine reads."""


class NameTaken(Exception):
    """Another machine of the site has the name; the message says what to do."""


def register() -> Machine:
    """Enter this machine, or renew its entry after a restart. Raises `NameTaken`."""
    key, name = identity.key(), settings.MACHINE
    now = {**identity.facts(), "name": name, "heartbeat_at": Now(), "forgotten_at": None}
    try:
        with transaction.atomic():
            if not (Machine.everything.filter(key=key).update(**now) or _took_over(key, name, now)):
                Machine.everything.create(key=key, **now)
            _keep_runs_where_they_were()
    except IntegrityError as error:
        raise NameTaken(_taken(name)) from error
    return here()


def _keep_runs_where_they_were() -> None:
    """As soon as there is another machine, bind runs to theirs that were launched when there was none: nobody knows what they need.

    Such runs are those of a version without several machines, and those of engines that only one machine has.
    """
    first = Machine.objects.order_by("joined_at", "pk").first()
    if first is None or Machine.objects.count() == 1:
        return
    unbound = Run.everything.filter(origin=Run.Origin.LAUNCHED, needs=None, chosen_machine=None).exclude(device="")
    local = unbound.exclude(device__startswith=SHARED)
    local.update(chosen_machine=Coalesce("machine", Value(first.pk)))


def register_in_time(say: Callable[[str], None]) -> Machine:
    """As `register`, but a machine of the same name that was heard of lately may be gone, as after a restore: wait and see."""
    try:
        return register()
    except NameTaken:
        if not _falls_silent(settings.MACHINE, say):
            raise
    return register()


def here() -> Machine:
    """This machine's entry. Raises `Machine.DoesNotExist` unless it is registered."""
    return Machine.objects.get(key=identity.key())


def describe() -> str | None:
    """Enter what only TVM can tell of this machine: its CPU, its cores, and what code it can run. It takes seconds.

    Return why it can't be told, if so; the entry then keeps what an earlier start found.
    """
    try:
        found = targets.this_machine()
    except (Busy, Invalid) as error:
        return f"TVM can't tell what this machine's CPU is: {one_line(error)}"
    target = found["target"]
    cores = int(target.get("num-cores", 0))
    values = {"cpu": target.get("mcpu", ""), "cores": cores, "target": target, "features": found["needs"]}
    Machine.objects.filter(key=identity.key()).update(**values)
    return None


class Presence:
    """Keeps this machine's heartbeat. Call `tick` several times a second from the process whose children work."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say
        self.due = 0.0
        self.sampler = Sampler(settings.VAR)
        self.said: str | None = None
        self.machine: Machine | None = None
        """Its entry as of the last heartbeat."""

    def tick(self) -> None:
        """Renew the heartbeat if it is time to. What goes wrong is said once, and tried again."""
        if time.monotonic() < self.due:
            return
        self.due = time.monotonic() + EVERY_S
        try:
            found = self._beat()
        except (Error, OSError) as error:
            connection.close()
            self._note(f"This machine can't tell the site that it is alive: {one_line(error)} It keeps trying.")
        else:
            self._note(None if found else "This machine was forgotten. To have it back, start this command again.")

    def _beat(self) -> bool:
        """Whether the site still knows this machine."""
        mine = Machine.objects.filter(key=identity.key())
        known = mine.update(heartbeat_at=Now(), load=self.sampler.sample()) == 1
        self.machine = mine.first() if known else self.machine
        return known

    def _note(self, trouble: str | None) -> None:
        if trouble != self.said:
            self.say(trouble or "The site hears of this machine again.")
        self.said = trouble


def judge(ours: dict[str, str]) -> None:
    """Let machines wait that don't fit to the site, or whose disk is full, and go on when that is over."""
    for machine in Machine.objects.all():
        trouble = differing(ours, machine.versions) or _apart(machine) or _crowded(machine)
        if trouble != machine.trouble:
            Machine.objects.filter(pk=machine.pk).update(trouble=trouble)


MATTER: Sequence[str] = ("tuneboard", "schema", "apache-tvm", "apache-tvm-ffi")
"""The packages of which all machines must have the same version."""


def differing(ours: dict[str, str], theirs: dict[str, str]) -> str:
    """What a machine must install to fit to the site; empty if it fits."""
    wrong = [
        f"{name} {theirs.get(name, 'is missing')}, and the site has {ours[name]}"
        for name in MATTER
        if name in ours and theirs.get(name) != ours[name]
    ]
    return (
        f"It has {'; '.join(wrong)}. Install the site's version of Tuneboard there, with what it pins." if wrong else ""
    )


def _apart(machine: Machine) -> str:
    """What must be set for a machine whose files the site wouldn't find; empty if it finds them."""
    if not machine.storage or machine.key == identity.key():
        return ""
    if settings.STORAGE == FILES:
        return (
            "The site keeps its files on its own machine (TUNEBOARD_STORAGE=files). "
            "Have both keep them in the database or an object store (docs/storage.md)."
        )
    if machine.storage != settings.STORAGE:
        return f"Its TUNEBOARD_STORAGE is {machine.storage}, and the site's is {settings.STORAGE}. Set it there, too."
    return ""


def _crowded(machine: Machine) -> str:
    """What a machine must do that has no space left; empty if it has."""
    if not machine.is_full:
        return ""
    free = machine.load["disk_free"] >> 20
    return (
        f"Its disk is full: {free} MiB are free in its TUNEBOARD_VAR, and it needs {FULL >> 20}. Free some space there."
    )


def _took_over(key: str, name: str, now: dict[str, Any]) -> bool:
    """Whether this machine takes over the entry of one of its name that is gone: its data folder was lost."""
    gone = Machine.everything.filter(name=name)
    return bool(gone.exclude(pk__in=Machine.objects.alive().values("pk")).update(key=key, **now))


def _falls_silent(name: str, say: Callable[[str], None]) -> bool:
    """Wait until the machine of this name is lost; False as soon as it is heard of again, or if it was lost before."""
    other = Machine.objects.alive().filter(name=name)
    if (heard_at := other.values_list("heartbeat_at", flat=True).first()) is None:
        return False
    say(f"A machine called {name} was heard from less than {LOST.seconds} s ago. Waiting to see whether it is gone.")
    while (latest := other.values_list("heartbeat_at", flat=True).first()) == heard_at:
        time.sleep(LOOK_S)
    return latest is None


def _taken(name: str) -> str:
    other = Machine.everything.filter(name=name).first()
    since = "was lost" if other and not other.is_alive else "is alive"
    return (
        f"There is another machine called {name}, with a data folder of its own, and it {since}. "
        "Give this one another name: --name NAME or TUNEBOARD_MACHINE."
    )
