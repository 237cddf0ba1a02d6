"""Entries of the audit log can be added, but neither changed nor deleted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import IntegrityError
from django.utils import timezone

from tuning.models import AppendOnly, AuditEntry

pytestmark = pytest.mark.django_db


def entry() -> AuditEntry:
    return AuditEntry.objects.create(actor="ada", via="page", action="run.stop")


def change(one: AuditEntry) -> None:
    one.actor = "eve"
    one.save()


def change_named(one: AuditEntry) -> None:
    one.save(update_fields=["actor"], force_update=True)


WAYS: dict[str, Callable[[AuditEntry], object]] = {
    "save": change,
    "save of fields": change_named,
    "save of a row that was read": lambda one: AuditEntry.objects.get(pk=one.pk).save(),
    "delete": lambda one: one.delete(),
    "update": lambda _: AuditEntry.objects.update(actor="eve"),
    "update of some": lambda one: AuditEntry.objects.filter(pk=one.pk).update(actor="eve"),
    "delete of all": lambda _: AuditEntry.objects.all().delete(),
    "delete of some": lambda one: AuditEntry.objects.filter(pk=one.pk).delete(),
    "bulk_update": lambda one: AuditEntry.objects.bulk_update([one], ["actor"]),
    "update_or_create": lambda one: AuditEntry.objects.update_or_create({"actor": "eve"}, pk=one.pk),
    "upsert": lambda one: AuditEntry.objects.bulk_create(
        [AuditEntry(pk=one.pk, actor="eve", via="page", action="x")],
        update_conflicts=True,
        update_fields=["actor"],
        unique_fields=["id"],
    ),
    "the manager that Django itself uses": lambda _: AuditEntry._base_manager.update(actor="eve"),
}


@pytest.mark.parametrize("way", WAYS)
def test_no_way_of_the_orm_changes_an_entry(way: str) -> None:
    one = entry()
    with pytest.raises(AppendOnly):
        WAYS[way](one)
    assert list(AuditEntry.objects.values_list("actor", flat=True)) == ["ada"]


def test_an_entry_with_the_id_of_another_doesnt_replace_it() -> None:
    one = entry()
    with pytest.raises(IntegrityError):
        AuditEntry(pk=one.pk, actor="eve", via="page", action="x").save()


def test_retention_deletes_the_oldest_first() -> None:
    now = timezone.now()
    for days in (1, 30, 20, 10):
        AuditEntry.objects.create(at=now - timedelta(days=days), actor=str(days), via="page", action="x")
    assert AuditEntry.objects.expire(now - timedelta(days=5), 2) == 2
    assert sorted(AuditEntry.objects.values_list("actor", flat=True)) == ["1", "10"]
