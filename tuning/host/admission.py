"""How many things that take memory, processors or threads go on at once in this process: for each user, and in all.

Whoever finds no free place waits in a short queue, and is then told to come back later. The web names the user of each request;
where none is named, as in workers, nothing is limited.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from django.conf import settings
from typing_extensions import Self

from tuning.validation import Busy

asking: ContextVar[int | None] = ContextVar("asking", default=None)
"""The key of the user whose request this is."""


class Limits(NamedTuple):
    """The most places that one user has, and that there are."""

    of_one: int
    in_all: int


PATIENCE_S = 20.0
"""How long a request waits for its place."""


class Admission:
    """Places for one kind of thing. Safe to use from several threads."""

    def __init__(self, limits: Callable[[], Limits], what: str) -> None:
        self._limits = limits
        self._what = what
        self._taken: Counter[int] = Counter()
        self._waiting: Counter[int] = Counter()
        self._changed = threading.Condition()

    def limits(self) -> Limits:
        """As the settings say."""
        return self._limits()

    def counts(self) -> tuple[int, int]:
        """How many have a place, and how many wait for one."""
        with self._changed:
            return self._taken.total(), self._waiting.total()

    @contextmanager
    def place(self, patience_s: float = PATIENCE_S) -> Iterator[None]:
        """A place for this request's user. Waits for one for some seconds. Raises `Busy`."""
        with self.ticket(asking.get()) as ticket:
            ticket.enter(patience_s)
            yield

    def ticket(self, user: int | None) -> Ticket:
        """A place, or else one in the queue. Raises `Busy` if the queue is full."""
        ticket = Ticket(self, user)
        if user is None or ticket.try_to_enter():
            return ticket
        limits = self._limits()
        with self._changed:
            if self._waiting[user] >= limits.of_one or self._waiting.total() >= limits.in_all:
                raise self._refusal(user)
            self._waiting[user] += 1
            ticket.waits = True
        return ticket

    def _refusal(self, user: int) -> Busy:
        limits = self._limits()
        own = self._taken[user] >= limits.of_one
        who, most = ("You already have", limits.of_one) if own else ("The site already has", limits.in_all)
        return Busy(f"{who} {most} {self._what}, the most at once. Try again in a minute.", own=own)

    def _has_place(self, user: int) -> bool:
        limits = self._limits()
        return self._taken[user] < limits.of_one and self._taken.total() < limits.in_all


class Ticket:
    """One user's place, or the wait for it. A context manager: at exit, both are given back."""

    def __init__(self, admission: Admission, user: int | None) -> None:
        self._admission, self._user = admission, user
        self.waits = self.entered = False

    def try_to_enter(self) -> bool:
        """Take the place if it is free."""
        return self._enter(0)

    def enter(self, patience_s: float | None) -> None:
        """Take the place, and wait for it for some seconds, or as long as it takes. Raises `Busy`."""
        if not self._enter(patience_s):
            raise self.refusal()

    def refusal(self) -> Busy:
        """Why there is no place."""
        assert self._user is not None
        return self._admission._refusal(self._user)  # noqa: SLF001 - a part of it

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back the place, or that in the queue."""
        whole = self._admission
        with whole._changed:  # noqa: SLF001
            for held, counted in ((self.entered, whole._taken), (self.waits, whole._waiting)):  # noqa: SLF001
                if held and self._user is not None:
                    _take_one(counted, self._user)
            self.entered = self.waits = False
            whole._changed.notify_all()  # noqa: SLF001

    def _enter(self, patience_s: float | None) -> bool:
        user, whole = self._user, self._admission
        if user is None or self.entered:
            return True
        with whole._changed:  # noqa: SLF001
            if not whole._changed.wait_for(lambda: whole._has_place(user), patience_s):  # noqa: SLF001
                return False
            whole._taken[user] += 1  # noqa: SLF001
            self.entered = True
            if self.waits:
                _take_one(whole._waiting, user)  # noqa: SLF001
                self.waits = False
        return True


def _take_one(counted: Counter[int], user: int) -> None:
    counted[user] -= 1
    if not counted[user]:
        del counted[user]  # Users without any are forgotten.


inspections = Admission(
    lambda: Limits(settings.INSPECTIONS_PER_USER, settings.INSPECTIONS), "models, targets or schedules being read"
)
"""Processes in which TVM runs for somebody who waits."""
uploads = Admission(lambda: Limits(settings.UPLOADS_PER_USER, settings.UPLOADS), "uploads in progress")
sockets = Admission(lambda: Limits(settings.SOCKETS_PER_USER, settings.SOCKETS), "live pages open")
