"""Projects: each run, each uploaded model and each template of settings belongs to one, and only its members see it."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models
from django.db.models import Q

DEFAULT = "default"
"""The name of the project that every site begins with."""
SEES_ALL = "tuning.view_every_project"
"""The permission of whoever manages the site: all projects are theirs."""


class ProjectQuerySet(models.QuerySet["Project"]):
    def seen_by(self, user: User | None) -> ProjectQuerySet:
        return self.filter(seen_by(user, "pk"))

    def default(self) -> Project:
        """The first one, which is never deleted: what is launched without naming a project belongs to it."""
        return self.order_by("pk")[0]


class Project(models.Model):
    """Runs and models that the same people work on."""

    name = models.CharField(max_length=60, unique=True)
    shared = models.BooleanField(default=False, db_default=False)
    """Whether operators may stop and delete each other's runs. Otherwise only who launched a run may, and the project's admins."""
    created_at = models.DateTimeField(auto_now_add=True)

    objects = ProjectQuerySet.as_manager()

    class Meta:
        ordering = ("name",)
        permissions = ((SEES_ALL.partition(".")[2], "Can see every project"),)

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """A person's role in a project."""

    class Role(models.TextChoices):
        """Viewers look, operators launch, admins manage the members."""

        VIEWER = "viewer"
        OPERATOR = "operator"
        ADMIN = "admin"

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memberships", db_index=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=Role.choices)

    class Meta:
        ordering = ("user__username",)
        constraints = (models.UniqueConstraint(fields=("project", "user"), name="one_role_a_member"),)

    def __str__(self) -> str:
        return f"{self.user} in {self.project}"


class LaunchTemplateQuerySet(models.QuerySet["LaunchTemplate"]):
    def seen_by(self, user: User | None) -> LaunchTemplateQuerySet:
        return self.filter(seen_by(user))


class LaunchTemplate(models.Model):
    """Settings of a launch that a project keeps under a name."""

    # Without an index: the constraint has one that begins with this column.
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="templates", db_index=False)
    name = models.CharField(max_length=60)
    saved_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    saved_at = models.DateTimeField()
    """When it got its settings."""
    settings = models.JSONField()
    """As `runs.launch` takes them, without the project. The seed and the run's name are among them only if somebody entered them."""

    objects = LaunchTemplateQuerySet.as_manager()

    class Meta:
        ordering = ("project__name", "name")
        constraints = (models.UniqueConstraint(fields=("project", "name"), name="template_once_a_project"),)

    def __str__(self) -> str:
        return self.name


def seen_by(user: User | None, path: str = "project") -> Q:
    """The condition that a row belongs to a project that the user sees; `path` leads from the row to the project.

    None is the site itself, which sees everything. Whoever comes by a project's token sees only that project.
    """
    if user is None:
        return Q()
    if not user.has_perm(SEES_ALL):
        return Q(**{f"{path}__in": list(roles_of(user))})
    project = project_of_token(user)
    return Q() if project is None else Q(**{path: project})


def seen_or_builtin(user: User | None, path: str = "project") -> Q:
    """The same, but rows without a project are everybody's."""
    seen = seen_by(user, path)
    return seen | Q(**{f"{path}__isnull": True}) if seen else seen


def roles_of(user: User) -> dict[int, str]:
    """The user's role in each project, by the project's key; by a project's token only in that one.

    Read once a request, as Django does with permissions.
    """
    if not hasattr(user, "roles"):
        only = project_of_token(user)
        held = {one.project_id: one.role for one in user.memberships.all()}
        user.roles = {key: role for key, role in held.items() if only in (None, key)}  # type: ignore[attr-defined]
    roles: dict[int, str] = user.roles  # type: ignore[attr-defined]
    return roles


def project_of_token(user: User) -> int | None:
    """The key of the project that the token is for by which the user came; None for all projects, and in a session."""
    token: Any = getattr(user, "token", None)
    project: int | None = None if token is None else token.project_id
    return project
