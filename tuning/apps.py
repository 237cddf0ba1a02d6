"""The domain app."""

from contextlib import suppress
from typing import Any

from django.apps import AppConfig
from django.apps import apps as every_app
from django.apps.registry import Apps
from django.db.models.signals import post_migrate


class TuningConfig(AppConfig):
    name = "tuning"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from tuning.notify import outbox

        outbox.connect()
        post_migrate.connect(make_first_project, sender=self)


def make_first_project(using: str, apps: Apps = every_app, **_: Any) -> None:
    """Every site has a project, except while its database is migrated to a time before there were any."""
    from tuning.models.project import DEFAULT

    with suppress(LookupError):
        projects = apps.get_model("tuning", "Project").objects.using(using)
        if not projects.exists():
            projects.create(name=DEFAULT)
