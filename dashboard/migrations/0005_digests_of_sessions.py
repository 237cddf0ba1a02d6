"""Sessions are stored by a digest of their keys. Everybody signs in again: a backup may have the keys of earlier sessions."""

from typing import Any

from django.db import migrations, models


def end_sessions(apps: Any, _editor: Any) -> None:
    """Delete all sessions."""
    apps.get_model("dashboard", "Session").objects.all().delete()


class Migration(migrations.Migration):
    dependencies = [("dashboard", "0004_single_sign_on")]

    operations = [
        migrations.RunPython(end_sessions, migrations.RunPython.noop),
        migrations.AlterField(
            model_name="session",
            name="session_key",
            field=models.CharField(max_length=64, primary_key=True, serialize=False),
        ),
    ]
