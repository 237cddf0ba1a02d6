from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("tuning", "0016_imported_logs"),)

    operations = (
        migrations.AddField(
            model_name="run",
            name="interpreter",
            field=models.CharField(db_default="", default="", max_length=20),
        ),
    )
