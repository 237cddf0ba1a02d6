"""Pages by cursor: a cursor encodes the last row shown, so no row is skipped or repeated while others are added.

Written by hand because Django's paginators count and skip rows, which is slow for a million trials, and because the pages
need nulls last in both directions.
"""

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
    "at": datetime,
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
assert {"at", *(order.lstrip("-") for order in get_args(RunOrder)), *TRIAL_COLUMNS.values()} == TYPES.keys()


def page(
    rows: QuerySet[Any, Row], order: str, cursor: str | None, limit: int, *, key: str = "pk"
) -> tuple[list[Row], str | None]:
    """The next `limit` rows and the cursor of the following page; `key` decides the order of equal rows.

    Rows without a value come last, in both directions. Raises `Invalid` for an invalid cursor.
    """
    name = order.lstrip("-")
    place = None if cursor is None else _decode(cursor, order)
    found: list[Row] = []
    if place is None or place[0] is not None:
        valued = rows.filter(**{f"{name}__isnull": False}) if name in NULLABLE else rows
        found += _following(valued, order, key, place, limit + 1)
        place = None
    if name in NULLABLE and len(found) <= limit:
        # Queried separately, since databases sort nulls differently.
        rest = rows.filter(**{f"{name}__isnull": True})
        found += _following(rest, f"-{key}" if order.startswith("-") else key, key, place, limit + 1 - len(found))
    more = len(found) > limit
    return found[:limit], _encode(found[limit - 1], order, key) if more else None


def long_page(
    rows: QuerySet[Any], whole: QuerySet[Any, Row], order: str, cursor: str | None, limit: int
) -> tuple[list[Row], str | None]:
    """Like `page` for long rows: only their keys are sorted, and then the rows of the page are read from `whole`."""
    narrow = rows.values_list("pk", order.lstrip("-"), named=True)
    keys, following = page(narrow, order, cursor, limit)
    found = whole.in_bulk([row.pk for row in keys])
    return [found[row.pk] for row in keys if row.pk in found], following


def _following(rows: QuerySet[Any, Row], order: str, key: str, place: tuple[Any, int] | None, most: int) -> list[Row]:
    """At most `most` rows after a place: first those with the same value, then the others. Each query is an index range."""
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
        raise Invalid({"cursor": "Not a valid cursor."}) from error
    if made_for != order:
        raise Invalid({"cursor": f"The cursor is for the order {made_for}, which must be the same on all pages."})
    return value, key


def _storable(value: Any) -> Any:
    """The value as the database compares it. Raises for NUL characters and dates out of range."""
    if isinstance(value, str) and "\0" in value:
        raise ValueError("a NUL character")
    return value.astimezone(timezone.utc) if isinstance(value, datetime) else value
