"""What the migration before has filled is required. PostgreSQL doesn't alter a table in the transaction that fills it."""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = (("tuning", "0014_projects"),)

    operations = (
        migrations.AlterField(
            model_name="run",
            name="project",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="runs", to="tuning.project"
            ),
        ),
        migrations.AddConstraint(
            model_name="network",
            constraint=models.UniqueConstraint(
                condition=Q(project__isnull=True), fields=("fingerprint",), name="one_builtin_network_of_a_kind"
            ),
        ),
        migrations.AddConstraint(
            model_name="network",
            constraint=models.UniqueConstraint(fields=("project", "fingerprint"), name="one_model_a_project"),
        ),
        migrations.AddConstraint(
            model_name="network",
            constraint=models.UniqueConstraint(fields=("project", "name"), name="one_model_of_a_name_a_project"),
        ),
        migrations.AddConstraint(
            model_name="network",
            constraint=models.CheckConstraint(
                condition=Q(kind="builtin", project__isnull=True) | (~Q(kind="builtin") & Q(project__isnull=False)),
                name="uploaded_models_have_a_project",
            ),
        ),
    )
