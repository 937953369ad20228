from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    """Mark home threads with assertions; the worker folds their predicates anew."""

    dependencies: ClassVar = [("memoryhub", "0017_exchange_requests")]

    operations: ClassVar = [
        # Nullable, so that SQLite adds the column and makes no new table.
        migrations.AddField("thread", "predicates_due", models.BooleanField(null=True)),
        migrations.RunSQL(
            "UPDATE memoryhub_thread SET predicates_due = TRUE WHERE home AND EXISTS ("
            "SELECT 1 FROM memoryhub_assertion a WHERE a.thread_id = memoryhub_thread.id)",
            migrations.RunSQL.noop,
            hints={"home": "default"},
            elidable=True,
        ),
        migrations.AddIndex(
            "thread",
            models.Index(
                fields=["id"],
                condition=models.Q(predicates_due=True),
                name="thread_predicates_due",
            ),
        ),
    ]
