"""Pages that neither skip nor repeat a row while others are added: a cursor names the last row shown."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import datetime, timezone
from typing import Any, TypeVar, get_args

import msgspec
from django.db.models import QuerySet

from tuning.reads.exploring import COLUMNS as TRIAL_COLUMNS
from tuning.reads.run_list import RunOrder
from tuning.validation import Invalid

Row = TypeVar("Row")

TYPES: dict[str, Any] = {
    "created_at": datetime,
    "name": str,
    "status": str,
    "trials_done": int,
    "trials_failed": int,
    "estimated_latency_s": float | None,
    "number": int,
    "latency_s": float,
    "task_id": int,
}
NULLABLE = {"estimated_latency_s"}
assert {*(order.lstrip("-") for order in get_args(RunOrder)), *TRIAL_COLUMNS.values()} == TYPES.keys()


def page(
    rows: QuerySet[Any, Row], order: str, cursor: str | None, limit: int, *, key: str = "pk"
) -> tuple[list[Row], str | None]:
    """The next `limit` rows and the cursor of those after them; `key` tells rows apart that are equal by `order`.

    Rows without a value come last, in both directions. Raises `Invalid` for a cursor that isn't ours.
    """
    name = order.lstrip("-")
    place = None if cursor is None else _decode(cursor, order)
    found: list[Row] = []
    if place is None or place[0] is not None:
        valued = rows.filter(**{f"{name}__isnull": False}) if name in NULLABLE else rows
        found += _following(valued, order, key, place, limit + 1)
        place = None
    if name in NULLABLE and len(found) <= limit:
        # By themselves: databases disagree on where they stand in an index.
        rest = rows.filter(**{f"{name}__isnull": True})
        found += _following(rest, f"-{key}" if order.startswith("-") else key, key, place, limit + 1 - len(found))
    more = len(found) > limit
    return found[:limit], _encode(found[limit - 1], order, key) if more else None


def long_page(
    rows: QuerySet[Any], whole: QuerySet[Any, Row], order: str, cursor: str | None, limit: int
) -> tuple[list[Row], str | None]:
    """The same of long rows, which are sorted by their keys alone: `whole` gives those that are on the page."""
    narrow = rows.values_list("pk", order.lstrip("-"), named=True)
    keys, following = page(narrow, order, cursor, limit)
    found = whole.in_bulk([row.pk for row in keys])
    return [found[row.pk] for row in keys if row.pk in found], following


def _following(rows: QuerySet[Any, Row], order: str, key: str, place: tuple[Any, int] | None, most: int) -> list[Row]:
    """At most so many after a place: those equal to it, and then the others, since each of the two is a range of an index."""
    name, descending = order.lstrip("-"), order.startswith("-")
    beyond = "lt" if descending else "gt"
    rows = rows.order_by(order, f"-{key}" if descending else key)
    if place is None:
        return list(rows[:most])
    value, last = place
    if name == key:
        return list(rows.filter(**{f"{key}__{beyond}": last})[:most])
    equal = list(rows.filter(**{name: value, f"{key}__{beyond}": last})[:most])
    return [*equal, *rows.filter(**{f"{name}__{beyond}": value})[: most - len(equal)]]


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
