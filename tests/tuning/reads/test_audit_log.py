"""Filter the audit log, and which index that uses; CSV."""

from __future__ import annotations

import csv
import io
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from django.db import connection

from tuning.models import AuditEntry
from tuning.reads import audit_log
from tuning.reads.audit_log import AuditFilter
from tuning.validation import Invalid

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)
ROWS: list[dict[str, Any]] = [
    {"actor": "ada", "action": "run.launch", "object_kind": "run", "object_id": 7, "object_name": "first"},
    {"actor": "eve", "action": "run.stop", "object_kind": "run", "object_id": 7, "object_name": "first"},
    {
        "actor": "eve",
        "action": "run.stop",
        "object_kind": "run",
        "object_id": 8,
        "refused": True,
        "reason": "It ended.",
    },
    {"actor": "", "action": "person.sign_in", "object_kind": "person", "object_name": "=1+1", "address": "10.0.0.9"},
]


@pytest.fixture(autouse=True)
def entries() -> None:
    for days, row in enumerate(ROWS):
        AuditEntry.objects.create(**{"at": NOON + timedelta(days=days), "via": "page", **row})


def found(**wanted: Any) -> list[int]:
    first = AuditEntry.objects.order_by("pk").values_list("pk", flat=True)[0]
    return [entry.pk - first for entry in AuditFilter(**wanted).entries().order_by("pk")]


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        ({}, [0, 1, 2, 3]),
        ({"person": "eve"}, [1, 2]),
        ({"action": "run.stop"}, [1, 2]),
        ({"object": "run"}, [0, 1, 2]),
        ({"object": "run 7"}, [0, 1]),
        ({"object": "Run #8"}, [2]),
        ({"object": "run 9"}, []),
        ({"outcome": "refused"}, [2]),
        ({"outcome": "done"}, [0, 1, 3]),
        ({"since": "2026-11-21"}, [1, 2, 3]),
        ({"until": "2026-11-21"}, [0, 1]),
        ({"since": "2026-11-21", "until": "2026-11-21"}, [1]),
        ({"q": "FIRST stop"}, [1]),
        ({"q": "10.0.0"}, [3]),
        ({"q": "ended"}, [2]),
        ({"q": "%"}, []),
        ({"person": "eve", "action": "run.stop", "object": "run 7", "outcome": "done"}, [1]),
    ],
)
def test_filters(wanted: dict[str, Any], numbers: list[int]) -> None:
    assert found(**wanted) == numbers


@pytest.mark.parametrize(
    "wanted",
    [
        {"object": "7"},
        {"object": "run x"},
        {"object": "run " + "9" * 30},
        {"outcome": "maybe"},
        {"since": "yesterday"},
        {"since": "2026-11-22", "until": "2026-11-21"},
        {"q": "a\0b"},
        {"person": "x" * 201},
    ],
)
def test_it_names_what_is_wrong(wanted: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as caught:
        AuditFilter(**wanted).entries()
    assert caught.value.fields.keys() <= wanted.keys()


def test_it_lists_the_actions_that_occur() -> None:
    assert audit_log.actions() == ["person.sign_in", "run.launch", "run.stop"]


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL reads small tables whole, whatever the indexes")
@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        ({}, "audit_times"),
        ({"since": "2026-11-21"}, "audit_times"),
        ({"person": "eve"}, "audit_of_actor"),
        ({"person": "eve", "until": "2026-11-21"}, "audit_of_actor"),
        ({"action": "run.stop"}, "audit_of_action"),
        ({"action": "run.stop", "outcome": "done"}, "audit_of_action"),
        ({"object": "run"}, "audit_of_kind"),
        ({"object": "run 7"}, "audit_of_object"),
        ({"object": "run 7", "person": "eve"}, "audit_of_object"),
        ({"outcome": "refused"}, "audit_refused"),
    ],
)
def test_a_page_is_a_range_of_one_index(wanted: dict[str, Any], index: str) -> None:
    plan = AuditFilter(**wanted).entries().order_by("-at", "-pk")[:50].explain()
    assert f"USING INDEX {index}" in plan
    assert "TEMP B-TREE" not in plan


def test_the_csv_has_all_entries_once_newest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "PIECE_ROWS", 2)
    for _ in range(3):  # at the same time
        AuditEntry.objects.create(at=NOON, via="page", action="run.tag", details={"add": ["a"]})
    text = b"".join(audit_log.csv_pieces(AuditEntry.objects.all())).decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    expected = AuditEntry.objects.order_by("-at", "-pk").values_list("pk", flat=True)
    assert [int(row["id"]) for row in rows] == list(expected)
    assert tuple(rows[0]) == audit_log.COLUMNS
    assert (rows[0]["object_name"], rows[0]["outcome"], rows[1]["outcome"]) == ("'=1+1", "done", "refused")
    assert rows[-1]["details"] in ("", '{"add":["a"]}')


def test_an_empty_csv_has_its_heads() -> None:
    assert b"".join(audit_log.csv_pieces(AuditEntry.objects.none())).startswith(b"id,at,actor,")
