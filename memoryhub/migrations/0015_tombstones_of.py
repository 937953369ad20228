from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memoryhub", "0014_vouched_for")]

    operations = [
        migrations.AlterField(
            model_name="tombstone",
            name="of",
            field=models.CharField(default="", max_length=10),
        ),
    ]
