import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tuning', '0009_run_list'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='run',
            name='notes',
            field=models.TextField(db_default='', default=''),
        ),
        migrations.AddField(
            model_name='run',
            name='revision',
            field=models.PositiveIntegerField(db_default=1, default=1),
        ),
        migrations.AddField(
            model_name='run',
            name='edited_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='run',
            name='edited_by',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.CreateModel(
            name='Delivery',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('url', models.TextField()),
                ('kind', models.CharField(max_length=40)),
                ('message', models.JSONField()),
                ('status', models.CharField(choices=[('waiting', 'Waiting'), ('sent', 'Sent'), ('failed', 'Failed')], default='waiting', max_length=10)),
                ('attempts', models.PositiveIntegerField(default=0)),
                ('answer', models.TextField(default='')),
                ('due_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('enqueued_at', models.DateTimeField(null=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('ended_at', models.DateTimeField(null=True)),
            ],
            options={
                'ordering': ('-created_at', '-id'),
                'indexes': [models.Index(fields=['status', 'due_at'], name='deliveries_due'), models.Index(fields=['-created_at', '-id'], name='deliveries_latest')],
            },
        ),
    ]
