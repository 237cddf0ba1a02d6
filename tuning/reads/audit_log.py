"""Read the audit log: filtered, and as CSV. Each combination of filters reads a range of one index, newest first."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, time, timezone
from typing import Literal, get_args

import msgspec
from django.db.models import Q

from tuning.models import AuditEntry, AuditQuerySet
from tuning.validation import Invalid, day, natural

from .files import cell

Outcome = Literal["", "done", "refused"]
LONGEST = 200
"""Characters of a filter."""
PIECE_ROWS = 2000
COLUMNS = (
    *("id", "at", "actor", "actor_id", "via", "token", "address", "action"),
    *("object_kind", "object_id", "object_name", "details", "outcome", "reason"),
)
"""Columns of the CSV, named as in the API."""
TEXTS = ("actor", "object_name", "action", "address", "token", "reason")
"""Columns in which words are searched."""
OBJECT = re.compile(r"([a-z_]+)(?:[ :#]+([0-9]+))?")


@dataclass(frozen=True)
class AuditFilter:
    """Conditions that all must hold. An empty value is no condition."""

    person: str = ""
    """The name of the person, at the time."""
    action: str = ""
    object: str = ""
    """A kind of objects, such as `run`, or one of them, such as `run 7`."""
    outcome: Outcome = ""
    since: str = ""
    """The first day in UTC, such as 2026-11-21."""
    until: str = ""
    """The last day in UTC."""
    q: str = ""
    """Words, each anywhere in the names, the action, the address, the token or the reason."""

    def entries(self) -> AuditQuerySet:
        """The matching entries, not sorted yet. Raises `Invalid` that names the parameters at fault."""
        self.check()
        return AuditEntry.objects.filter(*self._conditions())

    def check(self) -> None:
        """Raises `Invalid` that names each invalid parameter."""
        wrong: dict[str, str] = {}
        for name, text in vars(self).items():
            if "\0" in text:
                wrong[name] = "Must not contain a NUL character."
            elif len(text) > LONGEST:
                wrong[name] = f"Must be at most {LONGEST} characters long."
        if self.object and self._object() is None:
            wrong["object"] = "Must be a kind of object, such as run, or a single one, such as run 7."
        if self.outcome not in get_args(Outcome):
            wrong["outcome"] = "Must be done or refused."
        wrong |= self._wrong_days()
        if wrong:
            raise Invalid(wrong)

    def _wrong_days(self) -> dict[str, str]:
        days = {name: getattr(self, name) for name in ("since", "until") if getattr(self, name)}
        if wrong := {name: "Must be a date such as 2026-11-21." for name, text in days.items() if day(text) is None}:
            return wrong
        return {"until": "Must not be before since."} if len(days) == 2 and self.since > self.until else {}

    def _object(self) -> tuple[str, int | None] | None:
        """The kind and the id; None if the text isn't an object."""
        match = OBJECT.fullmatch(self.object.strip().lower())
        if not match:
            return None
        key = natural(match[2] or "")
        return None if match[2] and key is None else (match[1], key)

    def _conditions(self) -> Iterable[Q]:
        equal = {"actor": self.person, "action": self.action}
        yield from (Q(**{name: value}) for name, value in equal.items() if value)
        if found := self._object():
            kind, key = found
            yield Q(object_kind=kind) if key is None else Q(object_kind=kind, object_id=key)
        if self.outcome:
            yield Q(refused=self.outcome == "refused")
        if first := day(self.since):
            yield Q(at__gte=datetime.combine(first, time.min, timezone.utc))
        if last := day(self.until):
            yield Q(at__lte=datetime.combine(last, time.max, timezone.utc))
        for word in self.q.split():
            yield Q(*((f"{name}__icontains", word) for name in TEXTS), _connector=Q.OR)


def actions() -> list[str]:
    """The actions that occur, each found by one look into their index."""
    found: list[str] = []
    rows = AuditEntry.objects.order_by("action").values_list("action", flat=True)
    while (following := rows.filter(action__gt=found[-1] if found else "").first()) is not None:
        found.append(following)
    return found


def csv_pieces(entries: AuditQuerySet) -> Iterator[bytes]:
    """The entries as CSV, newest first, in pieces. No query outlasts its piece, since clients may be slow."""
    yield _lines([COLUMNS])
    following = entries.order_by("-at", "-pk")
    rows = list(following[:PIECE_ROWS])
    while rows:
        yield _lines(map(_cells, rows))
        last = rows[-1]
        older = Q(at__lt=last.at) | Q(pk__lt=last.pk)
        rows = list(following.filter(older, at__lte=last.at)[:PIECE_ROWS])


def _lines(rows: Iterable[Iterable[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def _cells(entry: AuditEntry) -> list[object]:
    values = entry.to_dict() | {"details": msgspec.json.encode(entry.details).decode() if entry.details else ""}
    return [cell(value) if isinstance(value, str) else value for value in map(values.__getitem__, COLUMNS)]
