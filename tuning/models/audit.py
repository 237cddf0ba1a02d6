"""The audit log: who did what to which object, when and from where."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NoReturn

from django.db import models
from django.utils import timezone
from typing_extensions import TypedDict

from .shapes import iso

LONGEST_NAME = 255
"""Characters of an object's name; a longer one is cut."""


class AppendOnly(TypeError):
    """An entry of the audit log was to be changed or deleted."""

    def __init__(self) -> None:
        super().__init__("The audit log is append-only: no entry is changed, and only its retention deletes any.")


class AuditEntryDict(TypedDict):
    """An entry as the API shows it. `actor` is empty for the site itself, and for people who aren't signed in."""

    id: int
    at: str | None
    actor: str
    actor_id: int | None
    via: str
    token: str
    address: str
    action: str
    object_kind: str
    object_id: int | None
    object_name: str
    details: dict[str, Any]
    outcome: str
    reason: str


class AuditQuerySet(models.QuerySet["AuditEntry"]):
    """Entries can be added and read."""

    def update(self, **_: Any) -> NoReturn:
        raise AppendOnly

    def delete(self) -> NoReturn:
        raise AppendOnly

    def bulk_update(self, *_: Any, **__: Any) -> NoReturn:
        raise AppendOnly

    def bulk_create(self, objs: Any, *args: Any, **options: Any) -> list[AuditEntry]:
        if any(options.get(name) for name in ("update_conflicts", "update_fields", "unique_fields")):
            raise AppendOnly
        return super().bulk_create(objs, *args, **options)

    def expire(self, before: datetime, most: int) -> int:
        """Delete at most `most` of the entries older than `before`, the oldest first; return how many."""
        oldest = AuditEntry.objects.filter(at__lt=before).order_by("at", "pk").values("pk")[:most]
        return models.QuerySet.delete(AuditEntry.objects.filter(pk__in=oldest))[0]


class AuditEntry(models.Model):
    """One act, done or refused.

    It has the ids and names of the person, the token and the object instead of foreign keys, so that it outlives all of
    them unchanged.
    """

    class Via(models.TextChoices):
        PAGE = "page"
        API = "api"
        COMMAND = "command"
        SITE = "site"

    at = models.DateTimeField(default=timezone.now)
    actor_id = models.BigIntegerField(null=True)
    """The person's id; none for commands, the site itself, and people who aren't signed in."""
    actor = models.CharField(max_length=150, default="")
    """The person's name at the time, or the user of the machine who ran the command."""
    via = models.CharField(max_length=10)
    token = models.CharField(max_length=150, default="")
    """What the token is called by which the person acted."""
    address = models.CharField(max_length=64, default="")
    """The address that the request came from."""
    action = models.CharField(max_length=40)
    """`run.launch`, `person.sign_in`, …"""
    object_kind = models.CharField(max_length=20, default="")
    object_id = models.BigIntegerField(null=True)
    object_name = models.CharField(max_length=LONGEST_NAME, default="")
    details = models.JSONField(default=dict)
    refused = models.BooleanField(default=False)
    reason = models.TextField(default="")
    """Why it was refused."""

    objects = AuditQuerySet.as_manager()

    class Meta:
        # Django's own changes, such as when a row goes that others refer to, get no other manager either.
        base_manager_name = "objects"
        ordering = ("-at", "-id")
        default_permissions = ()
        # Not `view_…`: viewers have all permissions that begin like that.
        permissions = (("see_audit", "Can see the audit log"),)
        indexes = (
            models.Index(fields=("at", "id"), name="audit_times"),
            models.Index(fields=("actor", "at", "id"), name="audit_of_actor"),
            models.Index(fields=("action", "at", "id"), name="audit_of_action"),
            models.Index(fields=("object_kind", "at", "id"), name="audit_of_kind"),
            models.Index(fields=("object_kind", "object_id", "at", "id"), name="audit_of_object"),
            models.Index(fields=("at", "id"), name="audit_refused", condition=models.Q(refused=True)),
        )

    def __str__(self) -> str:
        return f"{self.action} of {self.object_kind} {self.object_id} by {self.actor or self.via}"

    def save(self, *args: Any, **options: Any) -> None:
        """Insert the entry. Raises `AppendOnly` if it is stored already."""
        if not self._state.adding:
            raise AppendOnly
        super().save(*args, **options | {"force_insert": True})

    def delete(self, *_: Any, **__: Any) -> NoReturn:
        raise AppendOnly

    def to_dict(self) -> AuditEntryDict:
        return {
            "id": self.pk,
            "at": iso(self.at),
            "actor": self.actor,
            "actor_id": self.actor_id,
            "via": self.via,
            "token": self.token,
            "address": self.address,
            "action": self.action,
            "object_kind": self.object_kind,
            "object_id": self.object_id,
            "object_name": self.object_name,
            "details": self.details,
            "outcome": "refused" if self.refused else "done",
            "reason": self.reason,
        }
