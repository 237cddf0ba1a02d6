from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tuning", "0001_initial")]

    operations = [
        migrations.AddField("trial", "short", models.BooleanField(default=False, db_default=False)),
        migrations.AddConstraint(
            "trial",
            models.CheckConstraint(
                condition=models.Q(short=False) | models.Q(improved=False), name="trial_short_never_improves"
            ),
        ),
    ]
