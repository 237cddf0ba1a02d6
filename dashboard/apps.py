"""The web app."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class DashboardConfig(AppConfig):
    """Pages, API, sockets, and who may use them."""

    name = "dashboard"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Make the roles after migrations: this app stands last, so every permission exists by then."""
        from .accounts import sync_roles

        post_migrate.connect(sync_roles, sender=self)
