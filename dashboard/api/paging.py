"""Pages of runs that neither skip nor repeat one while others are launched: a cursor names the last run shown."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import datetime, timezone
from typing import Any, Literal, get_args

import msgspec
from django.db.models import Q, QuerySet

from tuning.models import Run
from tuning.services import Invalid

Order = Literal["-created_at", "created_at", "-name", "name", "-trials_done", "trials_done"]
TYPES: dict[str, type] = {"created_at": datetime, "name": str, "trials_done": int}
assert {order.lstrip("-") for order in get_args(Order)} == TYPES.keys()


def page(runs: QuerySet[Run], order: Order, cursor: str | None, limit: int) -> tuple[list[Run], str | None]:
    """The next `limit` runs and the cursor of those after them. Raises `Invalid` for a cursor that isn't ours."""
    name, descending = order.lstrip("-"), order.startswith("-")
    beyond = "lt" if descending else "gt"
    if cursor is not None:
        value, key = _decode(cursor, order)
        # The first condition says the same once more, so that an index on the column is used.
        runs = runs.filter(**{f"{name}__{beyond}e": value})
        runs = runs.filter(Q(**{f"{name}__{beyond}": value}) | Q(**{f"pk__{beyond}": key}))
    found = list(runs.order_by(order, "-pk" if descending else "pk")[: limit + 1])
    more = len(found) > limit
    return found[:limit], _encode(found[limit - 1], order) if more else None


def _encode(run: Run, order: Order) -> str:
    body = msgspec.json.encode([order, getattr(run, order.lstrip("-")), run.pk])
    return urlsafe_b64encode(body).decode().rstrip("=")


def _decode(cursor: str, order: Order) -> tuple[Any, int]:
    kind = tuple.__class_getitem__((str, TYPES[order.lstrip("-")], int))
    try:
        body = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        made_for, value, key = msgspec.json.decode(body, type=kind)
        value = _storable(value)
    except (ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise Invalid({"cursor": "Not a cursor of this API."}) from error
    if made_for != order:
        raise Invalid({"cursor": f"Made for the order {made_for}: keep the order from page to page."})
    return value, key


def _storable(value: Any) -> Any:
    """The value as the database compares it. Raises for what it can't hold: a NUL, a year that UTC hasn't got."""
    if isinstance(value, str) and "\0" in value:
        raise ValueError("a NUL character")
    return value.astimezone(timezone.utc) if isinstance(value, datetime) else value
