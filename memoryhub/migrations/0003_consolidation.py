from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("memoryhub", "0002_triggers")]

    operations: ClassVar = [
        migrations.AddField(
            "project",
            "consolidate",
            models.CharField(
                choices=[("manual", "Manual"), ("auto", "Auto")],
                default="manual",
                max_length=6,
            ),
        ),
        *(
            migrations.AddField("projecthour", name, models.BigIntegerField(default=0))
            for name in ("model_calls", "model_failures", "model_tokens")
        ),
    ]
