"""The domain app."""

from django.apps import AppConfig


class TuningConfig(AppConfig):
    """Runs, tasks, trials, records, and what tunes them."""

    name = "tuning"
    default_auto_field = "django.db.models.BigAutoField"
