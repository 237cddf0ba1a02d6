"""Projects, and one to begin with: it gets all runs, all models, and everybody in the role that they had on the site."""

from typing import Any

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


def fill_first_project(apps: Any, _editor: Any) -> None:
    """On a site that has been used operators could stop and delete each other's runs, so there they may go on to."""
    runs, users = apps.get_model("tuning", "Run").objects, apps.get_model("auth", "User").objects
    used = runs.exists() or users.exists()
    project = apps.get_model("tuning", "Project").objects.create(name="default", shared=used)
    runs.update(project=project)
    apps.get_model("tuning", "Network").objects.exclude(kind="builtin").update(project=project)
    members = apps.get_model("tuning", "Membership").objects
    for role in ("operator", "viewer"):  # Whoever has both is an operator.
        known = members.values("user")
        found = users.filter(groups__name=role).exclude(pk__in=known).distinct().order_by("pk")
        members.bulk_create([apps.get_model("tuning", "Membership")(project=project, user=user, role=role) for user in found])
    apps.get_model("auth", "Group").objects.filter(name__in=("operator", "viewer")).delete()


class Migration(migrations.Migration):
    dependencies = (
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("tuning", "0013_counts"),
    )

    operations = (
        migrations.CreateModel(
            name="Project",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=60, unique=True)),
                ("shared", models.BooleanField(db_default=False, default=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={"ordering": ("name",), "permissions": (("view_every_project", "Can see every project"),)},
        ),
        migrations.CreateModel(
            name="Membership",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "role",
                    models.CharField(
                        choices=[("viewer", "Viewer"), ("operator", "Operator"), ("admin", "Admin")], max_length=10
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to="tuning.project",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={"ordering": ("user__username",)},
        ),
        migrations.AddConstraint(
            model_name="membership",
            constraint=models.UniqueConstraint(fields=("project", "user"), name="one_role_a_member"),
        ),
        migrations.AddField(
            model_name="network",
            name="project",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="networks",
                to="tuning.project",
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="project",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.PROTECT, related_name="runs", to="tuning.project"
            ),
        ),
        migrations.AlterModelOptions(
            name="run", options={"ordering": ("-created_at", "-id"), "permissions": (("stop_run", "Can stop run"),)}
        ),
        migrations.AlterModelOptions(
            name="compilation",
            options={
                "ordering": ("-created_at", "-pk"),
                "permissions": (("cancel_compilation", "Can cancel compilation"),),
            },
        ),
        migrations.RemoveConstraint(model_name="network", name="one_uploaded_network_of_a_name"),
        migrations.AlterField(model_name="network", name="fingerprint", field=models.CharField(max_length=64)),
        migrations.RunPython(fill_first_project, migrations.RunPython.noop),
    )
