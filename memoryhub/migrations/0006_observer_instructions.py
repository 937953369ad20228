from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("memoryhub", "0005_model_hours")]

    operations: ClassVar = [
        migrations.AddField(
            "project", "observer_instructions", models.TextField(default="")
        ),
    ]
