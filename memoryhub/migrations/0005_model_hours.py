from __future__ import annotations

from typing import ClassVar

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("memoryhub", "0004_observer")]

    operations: ClassVar = [
        migrations.CreateModel(
            name="ModelHour",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "project_id",
                        "at",
                        "role",
                        "outcome",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("at", models.DateTimeField()),
                ("role", models.CharField(max_length=20)),
                ("outcome", models.CharField(max_length=20)),
                ("runs", models.BigIntegerField(default=0)),
                ("calls", models.BigIntegerField(default=0)),
                ("tokens", models.BigIntegerField(default=0)),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="memoryhub.project",
                    ),
                ),
            ],
        ),
        *(
            migrations.RemoveField("projecthour", name)
            for name in ("model_calls", "model_failures", "model_tokens")
        ),
    ]
