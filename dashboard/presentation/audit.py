"""Entries of the audit log as the page shows them."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from tuning.models import AuditEntry

PAGES = {
    "run": "run_page",
    "compilation": "compilation_page",
    "import": "import_page",
    "network": "network_page",
    "project": "project_page",
}
"""The routes of objects that have a page."""
BY = {"site": "the site", "page": "not signed in", "api": "not signed in", "command": "a command"}
"""Who acts if nobody is named."""


def row(entry: AuditEntry) -> dict[str, Any]:
    """The entry with the words and links of its row."""
    return {
        "entry": entry,
        "who": entry.actor or BY.get(entry.via, entry.via),
        "of_person": f"?{urlencode({'person': entry.actor})}" if entry.actor else "",
        "object": _object(entry),
        "url": _url(entry),
        "details": [(name.replace("_", " "), _value(value)) for name, value in entry.details.items()],
    }


def _object(entry: AuditEntry) -> str:
    if entry.object_kind == "person":
        return entry.object_name
    return " ".join(str(part) for part in (entry.object_kind, entry.object_id) if part not in ("", None))


def _url(entry: AuditEntry) -> str:
    """The object's page; of a person, what they did. Whether the object still exists isn't asked."""
    if entry.object_kind == "person":
        return f"?{urlencode({'person': entry.object_name})}" if entry.object_name else ""
    page = PAGES.get(entry.object_kind)
    return reverse(page, args=[entry.object_id]) if page and entry.object_id is not None else ""


def _value(value: Any) -> str:
    if isinstance(value, dict) and value.keys() == {"from", "to"}:
        return f"{_value(value['from'])} → {_value(value['to'])}"
    if isinstance(value, list):
        return ", ".join(map(_value, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
