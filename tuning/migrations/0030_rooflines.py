import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tuning', '0029_rounds_and_conditions'),
    ]

    operations = [
        migrations.CreateModel(
            name='MachineRoofline',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('target_fingerprint', models.CharField(max_length=64)),
                ('target', models.JSONField()),
                ('flops', models.FloatField()),
                ('bandwidths', models.JSONField()),
                ('threads', models.PositiveIntegerField()),
                ('tvm', models.CharField(max_length=60)),
                ('others_cores', models.FloatField(null=True)),
                ('cpus', models.PositiveIntegerField(null=True)),
                ('took_s', models.FloatField()),
                ('measured_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('asked_at', models.DateTimeField(null=True)),
                ('machine', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='rooflines', to='tuning.machine')),
            ],
            options={
                'ordering': ('pk',),
                'constraints': [models.UniqueConstraint(fields=('machine', 'target_fingerprint'), name='roofline_once_a_target')],
            },
        ),
    ]
