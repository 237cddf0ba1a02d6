from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tuning', '0033_launches'),
    ]

    operations = [
        migrations.AddField(
            model_name='conditionsample',
            name='machine',
            field=models.CharField(db_default='', default='', max_length=63),
        ),
    ]
