"""Stores what webhooks are to be sent: a `Delivery` for each address in TUNEBOARD_WEBHOOKS.

The message about a run or compilation that has ended is stored in the transaction that ends it: both are stored, or neither.
Jobs send it and try again, so an address that is slow, down or wrong costs no run anything.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.models.functions import Now

from tuning.models import CheckResult, Compilation, Delivery, RegressionCheck, Run, ended

from . import messages

logger = logging.getLogger(__name__)


def connect() -> None:
    """From now on, note each run and compilation that ends."""
    for kind in (Run, Compilation):
        ended.connect(note_end, sender=kind, dispatch_uid="webhooks")


def note_end(row: Run | Compilation, **_: Any) -> None:
    """Store messages about the end of a row."""
    _note(lambda: messages.about(row), f"the end of {row!r}")


def note_check(check: RegressionCheck, result: CheckResult) -> None:
    """Store messages that this result changed what is said of the check. Call it in the transaction of that change."""
    fresh = RegressionCheck.objects.select_related("network")
    _note(lambda: messages.about_check(fresh.get(pk=check.pk), result), repr(result))


def _note(about: Callable[[], tuple[str, dict[str, Any]]], what: str) -> None:
    """A message that can't be written doesn't undo what it is about."""
    if not settings.WEBHOOKS:
        return
    try:
        kind, content = about()
    except DatabaseError:
        raise  # The transaction is broken, and with it what it is about.
    except Exception:
        logger.exception("No webhook is sent about %s.", what)
    else:
        _store(kind, content)


def store_test(asked_by: str) -> list[Delivery]:
    """Store a test message to each address, and return these messages."""
    return _store(*messages.about_test(asked_by))


def _store(kind: str, content: dict[str, Any]) -> list[Delivery]:
    """Their times are the database's: an hour ahead, and they would be sent an hour late."""
    with transaction.atomic():
        made = Delivery.objects.bulk_create(Delivery(url=url, kind=kind, message=content) for url in settings.WEBHOOKS)
        rows = Delivery.objects.filter(pk__in=[delivery.pk for delivery in made]).order_by("pk")
        rows.update(created_at=Now(), due_at=Now())
        return list(rows)
