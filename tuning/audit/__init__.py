"""Records who does what, in the transaction in which it is done.

A change is made inside `act`; what is done and recorded in one statement, such as a sign-in, takes `record`. Whoever handles
requests or commands says who acts by `acting_as`; otherwise it is the site itself.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import User
from django.db import models, transaction

from tuning.models import LONGEST_NAME, AuditEntry, storable
from tuning.validation import Conflict

from .refusals import Refusals

Via = AuditEntry.Via
LONGEST_TEXT = 500
"""Characters of a reason or of a text among the details; a longer one is cut."""
KINDS = {
    "user": "person",
    "apitoken": "token",
    "delivery": "message",
    "regressioncheck": "check",
    "launchtemplate": "template",
}
"""What objects are called whose tables have other names."""


@dataclass(frozen=True)
class Actor:
    """Who acts, by what means, and from where. The site itself has no name."""

    name: str = ""
    id: int | None = None
    via: str = Via.SITE
    token: str = ""
    address: str = ""


@dataclass(frozen=True)
class Thing:
    """An object of an act that isn't a row, or not anymore."""

    kind: str = ""
    id: int | None = None
    name: str = ""


def _site() -> Actor:
    return Actor()


_acting: ContextVar[Callable[[], Actor]] = ContextVar("acting", default=_site)
"""Asked only when something is recorded: a request learns who sends it after it has begun."""
_within: ContextVar[bool] = ContextVar("within", default=False)
_refusals = Refusals()


@contextmanager
def acting_as(who: Callable[[], Actor]) -> Iterator[None]:
    """Whatever is recorded inside was done by `who`, also in functions that asgiref runs in other threads.

    A thread that is started by hand inherits nothing: what it does is done by the site.
    """
    before = _acting.set(who)
    try:
        yield
    finally:
        _acting.reset(before)


def command() -> Actor:
    """The user of this machine who runs a command."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        # Containers may run as a user that has no name.
        name = f"uid {os.getuid()}"
    return Actor(name, via=Via.COMMAND)


@dataclass
class Act:
    """What is being done. `of` and the details may become known only while it is."""

    action: str
    of: models.Model | Thing | None = None
    details: dict[str, Any] = field(default_factory=dict)


@contextmanager
def act(action: str, of: models.Model | Thing | None = None, **details: Any) -> Iterator[Act]:
    """A transaction for a change and its entry: both are stored, or neither.

    A `Conflict` is recorded as a refusal after the transaction was undone, and raised again. Any other exception, such as
    `Invalid`, leaves no entry.
    """
    doing = Act(action, of, details)
    with together():
        try:
            yield doing
        except Conflict as conflict:
            conflict.refused = conflict.refused or doing
            raise
        record(doing.action, doing.of, **doing.details)


@contextmanager
def together() -> Iterator[None]:
    """One transaction for several acts: if one of them is refused, none is done, and only the refusal is recorded."""
    outermost = not _within.get()
    before = _within.set(True)
    try:
        with transaction.atomic():
            yield
    except Conflict as conflict:
        if outermost and isinstance(conflict.refused, Act):
            refused = conflict.refused
            refuse(refused.action, refused.of, str(conflict), **refused.details)
        raise
    finally:
        _within.reset(before)


def record(action: str, of: models.Model | Thing | None = None, by: User | None = None, **details: Any) -> None:
    """Record that something is done, by whoever acts or, if they act before they are known to the request, by `by`."""
    _store(action, of, _actor(by), details)


def refuse(action: str, of: models.Model | Thing | None, reason: str, by: User | None = None, **details: Any) -> None:
    """Record that something was refused. Of many refusals in a minute, only some are (`refusals`)."""
    actor, thing = _actor(by), _thing(of)
    source = "" if actor.id is None else str(actor.id)
    times = _refusals.counted(source, (action, thing, reason, actor.address if not source else ""))
    if times is not None:
        _store(action, thing, actor, details | times, reason)


def _actor(by: User | None) -> Actor:
    actor = _acting.get()()
    if by is None:
        return actor
    return Actor(by.get_username(), by.pk, Via.PAGE if actor.via == Via.SITE else actor.via, actor.token, actor.address)


def _store(
    action: str, of: models.Model | Thing | None, actor: Actor, details: dict[str, Any], reason: str | None = None
) -> None:
    thing = _thing(of)
    AuditEntry.objects.create(
        actor=actor.name[:150],
        actor_id=actor.id,
        via=actor.via,
        token=actor.token[:150],
        address=actor.address[:64],
        action=action,
        object_kind=thing.kind,
        object_id=thing.id,
        object_name=_text(thing.name, LONGEST_NAME),
        details={name: _short(value) for name, value in details.items()},
        refused=reason is not None,
        reason=_text(reason or "", LONGEST_TEXT),
    )


def _thing(of: models.Model | Thing | None) -> Thing:
    if of is None:
        return Thing()
    if isinstance(of, Thing):
        return of
    kind = str(of._meta.model_name)  # noqa: SLF001 - the class of a request's user isn't User
    return Thing(KINDS.get(kind, kind), of.pk, str(of))


def _short(value: Any) -> Any:
    """The value with its texts cut."""
    if isinstance(value, str):
        return _text(value, LONGEST_TEXT)
    if isinstance(value, dict):
        return {str(name): _short(part) for name, part in value.items()}
    return [_short(part) for part in value] if isinstance(value, (list, tuple)) else value


def _text(text: str, longest: int) -> str:
    stored = storable(text)
    return stored if len(stored) <= longest else f"{stored[: longest - 1]}…"
