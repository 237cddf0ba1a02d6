"""Imported logs: what they don't say is null, and an import is a row that a job works on."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tuning", "0015_everything_has_a_project"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="BadLine",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("file", models.CharField(max_length=500)),
                ("line", models.PositiveBigIntegerField()),
                ("reason", models.TextField()),
            ],
            options={
                "ordering": ("pk",),
            },
        ),
        migrations.CreateModel(
            name="Import",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("enqueued_at", models.DateTimeField(null=True)),
                ("lease", models.CharField(max_length=32, null=True)),
                ("heartbeat_at", models.DateTimeField(null=True)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("queued", "Queued"),
                            ("running", "Running"),
                            ("cancelling", "Cancelling"),
                            ("finished", "Finished"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                        ],
                        default="queued",
                        max_length=12,
                    ),
                ),
                ("files", models.JSONField(default=list)),
                ("options", models.JSONField(default=dict)),
                ("bytes_total", models.PositiveBigIntegerField(default=0)),
                ("bytes_read", models.PositiveBigIntegerField(default=0)),
                ("lines", models.PositiveBigIntegerField(default=0)),
                ("records", models.PositiveBigIntegerField(default=0)),
                ("bad_lines", models.PositiveBigIntegerField(default=0)),
                ("results", models.JSONField(default=list)),
                ("skipped", models.JSONField(default=list)),
                ("remarks", models.JSONField(default=list)),
                ("error", models.TextField(null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("started_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
            ],
            options={
                "ordering": ("-created_at", "-pk"),
                "permissions": (("cancel_import", "Can cancel import"),),
            },
        ),
        migrations.RemoveConstraint(
            model_name="run",
            name="one_live_run_a_device",
        ),
        migrations.AddField(
            model_name="run",
            name="bad_lines",
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="run",
            name="origin",
            field=models.CharField(
                choices=[
                    ("launched", "Launched"),
                    ("imported", "Imported"),
                    ("watched", "Watched"),
                    ("streamed", "Streamed"),
                ],
                db_default="launched",
                default="launched",
                max_length=10,
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="records_digest",
            field=models.CharField(db_default="", default="", max_length=64),
        ),
        migrations.AddField(
            model_name="run",
            name="sessions",
            field=models.JSONField(db_default=models.Value([], models.JSONField()), default=list),
        ),
        migrations.AddField(
            model_name="task",
            name="flop_derived",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name="task",
            name="workload",
            field=models.JSONField(null=True),
        ),
        migrations.AlterField(
            model_name="extractedtask",
            name="flop",
            field=models.FloatField(null=True),
        ),
        migrations.AlterField(
            model_name="extractedtask",
            name="weight",
            field=models.PositiveIntegerField(null=True),
        ),
        migrations.AlterField(
            model_name="network",
            name="kind",
            field=models.CharField(
                choices=[
                    ("builtin", "built-in"),
                    ("onnx", "ONNX"),
                    ("irmodule", "IRModule"),
                    ("named", "known by name"),
                ],
                default="builtin",
                max_length=10,
            ),
        ),
        migrations.AlterField(
            model_name="run",
            name="elapsed_s",
            field=models.FloatField(default=0.0, null=True),
        ),
        migrations.AlterField(
            model_name="run",
            name="network",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.PROTECT, related_name="runs", to="tuning.network"
            ),
        ),
        migrations.AlterField(
            model_name="run",
            name="trials_budget",
            field=models.PositiveIntegerField(null=True),
        ),
        migrations.AlterField(
            model_name="task",
            name="flop",
            field=models.FloatField(null=True),
        ),
        migrations.AlterField(
            model_name="task",
            name="weight",
            field=models.PositiveIntegerField(null=True),
        ),
        migrations.AlterField(
            model_name="trial",
            name="at_s",
            field=models.FloatField(null=True),
        ),
        migrations.AddField(
            model_name="badline",
            name="run",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.CASCADE, related_name="bad_line_set", to="tuning.run"
            ),
        ),
        migrations.AddField(
            model_name="import",
            name="created_by",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddField(
            model_name="import",
            name="project",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="imports", to="tuning.project"
            ),
        ),
        migrations.AddField(
            model_name="badline",
            name="imported_by",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.CASCADE, related_name="bad_line_set", to="tuning.import"
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="imported_by",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="runs", to="tuning.import"
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("records_digest", ""), _negated=True),
                fields=["records_digest"],
                name="run_by_records",
            ),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.UniqueConstraint(
                condition=models.Q(("status__in", ("running", "stopping")), models.Q(("device", ""), _negated=True)),
                fields=("device",),
                name="one_live_run_a_device",
            ),
        ),
        migrations.AddIndex(
            model_name="import",
            index=models.Index(fields=["status"], name="tuning_impo_status_bf9ad2_idx"),
        ),
        migrations.AddConstraint(
            model_name="badline",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("imported_by__isnull", True), ("run__isnull", False)),
                    models.Q(("imported_by__isnull", False), ("run__isnull", True)),
                    _connector="OR",
                ),
                name="bad_line_of_import_or_run",
            ),
        ),
    ]
