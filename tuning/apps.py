"""The domain app."""

from django.apps import AppConfig


class TuningConfig(AppConfig):
    name = "tuning"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from tuning.notify import outbox

        outbox.connect()
