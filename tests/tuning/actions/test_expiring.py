"""Old entries of the audit log are deleted, which is recorded."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tuning.actions import expiring, sweeping
from tuning.models import AuditEntry

pytestmark = pytest.mark.django_db


def entry(days: float) -> int:
    at = timezone.now() - timedelta(days=days)
    return int(AuditEntry.objects.create(at=at, actor="ada", via="page", action="run.stop").pk)


def test_the_sweep_deletes_what_is_older_and_says_so(settings: Any) -> None:
    settings.AUDIT_DAYS = 30
    old, recent = entry(32), entry(29)
    sweeping.sweep()
    assert set(AuditEntry.objects.filter(action="run.stop").values_list("pk", flat=True)) == {recent}
    told = AuditEntry.objects.get(action="audit.expire")
    assert (told.via, told.actor, told.details["entries"]) == ("site", "", 1)
    assert old not in AuditEntry.objects.values_list("pk", flat=True)


def test_it_records_nothing_if_nothing_is_old(settings: Any) -> None:
    settings.AUDIT_DAYS = 30
    entry(29)
    # Whole days only: otherwise each sweep would delete one entry, and write one.
    entry(30)
    sweeping.sweep()
    assert AuditEntry.objects.count() == 2


def test_zero_days_keep_everything(settings: Any) -> None:
    settings.AUDIT_DAYS = 0
    entry(5000)
    sweeping.sweep()
    assert AuditEntry.objects.count() == 1


def test_one_sweep_deletes_only_so_many(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.AUDIT_DAYS = 30
    monkeypatch.setattr(expiring, "BATCH", 2)
    for days in (40, 50, 60):
        entry(days)
    assert [expiring.expire() for _ in range(3)] == [2, 1, 0]
