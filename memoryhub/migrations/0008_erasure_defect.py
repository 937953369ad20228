from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("memoryhub", "0007_thread_of_subject")]

    operations: ClassVar = [
        migrations.AddField(
            "erasure", "defect", models.CharField(default="", max_length=64)
        ),
    ]
