from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tuning", "0022_where_runs_go")]

    operations = [migrations.AddField("trial", "noisy", models.BooleanField(default=False, db_default=False))]
