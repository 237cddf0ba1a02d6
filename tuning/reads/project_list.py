"""Projects with how much is in each, and their members."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Count, IntegerField, Max, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from typing_extensions import TypedDict

from tuning.models import Membership, Network, Project, Run, roles_of


class ProjectDict(TypedDict):
    """`role` is your own, null if you aren't a member but manage the site. `runs` leaves deleted ones out.

    `active_at` is when a run was last launched, measured or ended, or a model uploaded; null if that never happened.
    """

    id: int
    name: str
    shared: bool
    role: str | None
    members: int
    runs: int
    models: int
    active_at: datetime | None
    created_at: datetime


class MemberDict(TypedDict):
    """`id` is the person's. Who isn't `active` can't sign in."""

    id: int
    name: str
    role: str
    active: bool


def projects(user: User | None) -> list[ProjectDict]:
    """The user's projects by name; all of them for None, the site itself."""
    return [_shown(project, user) for project in _counted(Project.objects.seen_by(user))]


def project(of: Project, user: User | None) -> ProjectDict:
    """One of them, as the database has it now."""
    return _shown(_counted(Project.objects.filter(pk=of.pk)).get(), user)


def members(of: Project) -> list[MemberDict]:
    """The project's members by name; those who are deactivated last."""
    rows = of.memberships.select_related("user").order_by("-user__is_active", "user__username")
    return [member(row) for row in rows]


def member(row: Membership) -> MemberDict:
    """One of them."""
    user = row.user
    return {"id": user.pk, "name": user.get_username(), "role": row.role, "active": user.is_active}


def _counted(found: QuerySet[Project]) -> QuerySet[Any]:
    """Each count is a query of its own: a join of all of them would multiply the rows."""
    moved = Max(Coalesce("finished_at", "heartbeat_at", "queued_at"))
    return found.order_by("name").annotate(
        member_count=_of_each(Membership.objects.all()),
        run_count=_of_each(Run.objects.all()),
        model_count=_of_each(Network.objects.all()),
        run_at=Subquery(_each(Run.everything.all()).annotate(found=moved).values("found")),
        model_at=Subquery(_each(Network.objects.all()).annotate(found=Max("uploaded_at")).values("found")),
    )


def _of_each(rows: QuerySet[Any]) -> Coalesce:
    return Coalesce(Subquery(_each(rows).annotate(found=Count("pk")).values("found")), 0, output_field=IntegerField())


def _each(rows: QuerySet[Any]) -> QuerySet[Any]:
    """The project's rows as one group."""
    return rows.filter(project=OuterRef("pk")).order_by().values("project")


def _shown(row: Any, user: User | None) -> ProjectDict:
    return {
        "id": row.pk,
        "name": row.name,
        "shared": row.shared,
        "role": None if user is None else roles_of(user).get(row.pk),
        "members": row.member_count,
        "runs": row.run_count,
        "models": row.model_count,
        "active_at": max(filter(None, (row.run_at, row.model_at)), default=None),
        "created_at": row.created_at,
    }
