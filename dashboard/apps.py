"""The web app."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class DashboardConfig(AppConfig):
    name = "dashboard"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Create the roles after migrations. This app is the last one, so all permissions exist by then.

        What sign-ins leave behind is removed after sweeps.
        """
        from tuning.actions.tidying import swept

        from . import checks  # noqa: F401 - they register themselves
        from .accounts import sync_roles
        from .people.tidying import tidy

        post_migrate.connect(sync_roles, sender=self)
        swept.connect(tidy)
