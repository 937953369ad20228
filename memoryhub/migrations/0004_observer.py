from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("memoryhub", "0003_consolidation")]

    operations: ClassVar = [
        # Nullable, so that SQLite adds the column and makes no new table.
        migrations.AddField("thread", "observer_due", models.BooleanField(null=True)),
        migrations.AddIndex(
            "thread",
            models.Index(
                fields=["listed_at"],
                condition=models.Q(observer_due=True),
                name="thread_observer_due",
            ),
        ),
    ]
