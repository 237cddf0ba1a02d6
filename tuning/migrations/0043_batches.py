from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("tuning", "0042_converted_networks"),
    ]

    operations = [
        migrations.AddField(
            model_name="compilation",
            name="batches",
            field=models.JSONField(default=list),
        ),
        migrations.AddField(
            model_name="benchmark",
            name="batches",
            field=models.JSONField(default=list),
        ),
    ]
