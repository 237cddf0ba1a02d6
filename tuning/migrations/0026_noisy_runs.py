from typing import Any

from django.db import migrations, models
from django.db.models import Count


def count_noisy_trials(apps: Any, _: Any) -> None:
    noisy = apps.get_model("tuning", "Trial").objects.filter(noisy=True).order_by()
    runs = apps.get_model("tuning", "Run").objects
    for key, count in noisy.values_list("run").annotate(Count("pk")):
        runs.filter(pk=key).update(trials_noisy=count)


class Migration(migrations.Migration):
    dependencies = [("tuning", "0025_machines_of_trials")]

    operations = [
        migrations.AddField(
            "run", "disturbed", models.JSONField(default=list, db_default=models.Value([], models.JSONField()))
        ),
        migrations.AddField("run", "trials_noisy", models.PositiveIntegerField(default=0, db_default=0)),
        migrations.AddIndex(
            "trial", models.Index(fields=["run", "number"], condition=models.Q(noisy=True), name="trial_noisy")
        ),
        migrations.RunPython(count_noisy_trials, migrations.RunPython.noop),
    ]
