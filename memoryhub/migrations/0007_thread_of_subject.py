from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("memoryhub", "0006_observer_instructions")]

    operations: ClassVar = [
        migrations.AddIndex(
            "thread",
            models.Index(fields=["subject", "home"], name="thread_of_subject"),
        ),
    ]
