from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("memoryhub", "0016_cold_objects")]

    operations: ClassVar = [
        # Nullable, so that SQLite adds the column and makes no new table.
        migrations.AddField("thread", "has_requests", models.BooleanField(null=True)),
        migrations.AddIndex(
            "thread",
            models.Index(
                fields=["subject"],
                condition=models.Q(has_requests=True),
                name="thread_has_requests",
            ),
        ),
    ]
