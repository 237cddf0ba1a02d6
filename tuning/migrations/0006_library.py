from __future__ import annotations

import hashlib
import json
from typing import Any

from django.db import migrations, models


def fill(apps: Any, _schema_editor: Any) -> None:
    Run = apps.get_model('tuning', 'Run')
    for key, target in Run.objects.values_list('pk', 'target').iterator():
        digest = hashlib.sha256(json.dumps([target], sort_keys=True).encode()).hexdigest()
        Run.objects.filter(pk=key).update(target_fingerprint=digest)


class Migration(migrations.Migration):

    dependencies = [
        ('tuning', '0005_tracker_samples'),
    ]

    operations = [
        migrations.AddField(
            model_name='run',
            name='target_fingerprint',
            field=models.CharField(default='', max_length=64),
            preserve_default=False,
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
        migrations.RemoveIndex(
            model_name='task',
            name='tuning_task_workloa_8ed364_idx',
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(fields=['workload_hash', 'run', 'best_latency_s'], name='tuning_task_workloa_b9f188_idx'),
        ),
    ]
