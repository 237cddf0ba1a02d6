from typing import Any

import django.db.models.deletion
from django.db import migrations, models

POINTS = 24
KEPT = models.Q(('deleted_at__isnull', True))
CURRENT = models.Q(('deleted_at__isnull', True), ('archived', False))


def curve(improved: Any, weights: dict[int, int]) -> list[list[float]]:
    """The estimate after each improvement, from the one on at which every chosen task has a valid trial, thinned."""
    best: dict[int, float] = {}
    points: list[list[float]] = []
    for number, task, latency_s in improved.order_by('number').values_list('number', 'task', 'latency_s').iterator():
        if task not in weights:
            continue
        best[task] = latency_s * weights[task]
        if len(best) == len(weights):
            points.append([number, float(f'{sum(best.values()):.5g}')])
    if len(points) < 2 * POINTS:
        return points
    last = points[-1][0]
    return list({int(number * POINTS // (last + 1)): [number, value] for number, value in points}.values())


def fill_estimates(apps: Any, _editor: Any) -> None:
    """Runs from before get the curves that recorders keep from now on."""
    runs, tasks, trials = (apps.get_model('tuning', name).objects for name in ('Run', 'Task', 'Trial'))
    for key in list(runs.filter(estimated_latency_s__isnull=False).values_list('pk', flat=True)):
        weights = dict(tasks.filter(run=key, chosen=True).values_list('pk', 'weight'))
        runs.filter(pk=key).update(estimates=curve(trials.filter(run=key, improved=True), weights))


class Migration(migrations.Migration):

    dependencies = [
        ('tuning', '0008_trial_pages'),
    ]

    operations = [
        migrations.RemoveIndex(
            model_name='run',
            name='tuning_run_created_78dc44_idx',
        ),
        migrations.AddField(
            model_name='run',
            name='estimates',
            field=models.JSONField(default=list),
        ),
        migrations.AddField(
            model_name='run',
            name='pinned',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name='run',
            name='archived',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name='run',
            name='deleted_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='run',
            name='purging',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.CreateModel(
            name='Tag',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=40)),
                ('run', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='tags', to='tuning.run')),
            ],
            options={
                'ordering': ('name',),
                'indexes': [models.Index(fields=['name', 'run'], name='tag_by_name')],
                'constraints': (models.UniqueConstraint(fields=('run', 'name'), name='tag_once_a_run'),),
            },
        ),
        migrations.AddConstraint(
            model_name='run',
            constraint=models.CheckConstraint(condition=models.Q(('pinned', False), ('archived', False), _connector='OR'), name='run_pinned_or_archived'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=CURRENT, fields=['created_at', 'id'], name='run_by_created_at'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=CURRENT, fields=['name', 'id'], name='run_by_name'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=CURRENT, fields=['status', 'id'], name='run_by_status'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=CURRENT, fields=['trials_done', 'id'], name='run_by_trials_done'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=CURRENT, fields=['trials_failed', 'id'], name='run_by_trials_failed'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=CURRENT, fields=['estimated_latency_s', 'id'], name='run_by_estimate'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=KEPT, fields=['target_fingerprint', 'id'], name='run_by_target'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=models.Q(('deleted_at__isnull', True), ('pinned', True)), fields=['created_at', 'id'], name='run_pinned'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=models.Q(('deleted_at__isnull', True), ('archived', True)), fields=['created_at', 'id'], name='run_archived'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=models.Q(('deleted_at__isnull', False)), fields=['deleted_at'], name='run_deleted'),
        ),
        migrations.RunPython(fill_estimates, migrations.RunPython.noop, elidable=True),
    ]
