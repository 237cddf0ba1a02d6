from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tuning", "0036_chosen_inside")]

    operations = [
        migrations.AddField(
            model_name="run",
            name="tasks_spare",
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
    ]
