from uuid import UUID

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("memoryhub", "0012_hits"),
    ]

    operations = [
        # No release has made a key without an endorsement.
        migrations.AddField(
            model_name="signingkey",
            name="endorser",
            field=models.UUIDField(default=UUID(int=0)),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="signingkey",
            name="endorsement",
            field=models.BinaryField(default=bytes, max_length=64),
            preserve_default=False,
        ),
    ]
