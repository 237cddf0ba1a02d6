"""Tokens for one project."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("dashboard", "0002_people"), ("tuning", "0015_everything_has_a_project"))

    operations = (
        migrations.AddField(
            model_name="apitoken",
            name="project",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="tuning.project"
            ),
        ),
    )
