from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("memoryhub", "0011_evicted_pages")]

    operations: ClassVar = [
        migrations.AddField(
            model_name="slot",
            name="struck_seq",
            field=models.BigIntegerField(null=True),
        ),
    ]
