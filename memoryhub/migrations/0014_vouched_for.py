from uuid import UUID

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("memoryhub", "0013_key_types"),
    ]

    operations = [
        migrations.RemoveField(model_name="keymeta", name="ledger_n"),
        migrations.CreateModel(
            name="NewestLine",
            fields=[
                ("kek_id", models.CharField(db_index=True, max_length=16)),
                ("wrapped", models.BinaryField(max_length=60)),
                (
                    "file",
                    models.CharField(max_length=20, primary_key=True, serialize=False),
                ),
                ("n", models.BigIntegerField()),
            ],
            options={"abstract": False},
        ),
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
