"""The web app."""

from django.apps import AppConfig


class DashboardConfig(AppConfig):
    """Pages, API, sockets, and who may use them."""

    name = "dashboard"
    default_auto_field = "django.db.models.BigAutoField"
