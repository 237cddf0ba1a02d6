from typing import Any

from django.db import migrations, models


def keep_direct(apps: Any, _schema_editor: Any) -> None:
    """Runs of earlier versions computed all convolutions directly. If they go on, they must."""
    run = apps.get_model("tuning", "Run")
    for one in run.objects.filter(engine="meta_schedule", origin="launched").only("options").iterator():
        if "algorithms" not in one.options:
            run.objects.filter(pk=one.pk).update(options={**one.options, "algorithms": "direct"})


class Migration(migrations.Migration):
    dependencies = [("tuning", "0036_chosen_inside")]

    operations = [
        migrations.AddField(
            model_name="run",
            name="tasks_spare",
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
        migrations.RunPython(keep_direct, migrations.RunPython.noop),
    ]
