"""Pages that neither skip nor repeat a row while others are added: a cursor names the last row shown."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import datetime, timezone
from typing import Any, Literal, TypeVar, get_args

import msgspec
from django.db.models import Q, QuerySet

from tuning.exploring import Order as TrialOrder
from tuning.services import Invalid

Row = TypeVar("Row")

Order = Literal["-created_at", "created_at", "-name", "name", "-trials_done", "trials_done"]
TYPES: dict[str, type] = {"created_at": datetime, "name": str, "trials_done": int, "number": int, "latency_s": float}
assert {order.lstrip("-") for order in (*get_args(Order), *get_args(TrialOrder))} == TYPES.keys()


def page(
    rows: QuerySet[Any, Row], order: str, cursor: str | None, limit: int, *, key: str = "pk"
) -> tuple[list[Row], str | None]:
    """The next `limit` rows and the cursor of those after them; `key` tells rows apart that are equal by `order`.

    Raises `Invalid` for a cursor that isn't ours.
    """
    name, descending = order.lstrip("-"), order.startswith("-")
    beyond = "lt" if descending else "gt"
    if cursor is not None:
        value, last = _decode(cursor, order)
        # The first condition says the same once more, so that an index on the column is used.
        rows = rows.filter(**{f"{name}__{beyond}e": value})
        rows = rows.filter(Q(**{f"{name}__{beyond}": value}) | Q(**{f"{key}__{beyond}": last}))
    found = list(rows.order_by(order, f"-{key}" if descending else key)[: limit + 1])
    more = len(found) > limit
    return found[:limit], _encode(found[limit - 1], order, key) if more else None


def _encode(row: Any, order: str, key: str) -> str:
    body = msgspec.json.encode([order, getattr(row, order.lstrip("-")), getattr(row, key)])
    return urlsafe_b64encode(body).decode().rstrip("=")


def _decode(cursor: str, order: str) -> tuple[Any, int]:
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
