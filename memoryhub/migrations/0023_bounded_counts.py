from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models

from memoryhub.models.threads import KeepsOwnRetention


class Migration(migrations.Migration):
    """Find the threads that are full or keep a retention of their own; no row changes."""

    dependencies: ClassVar = [("memoryhub", "0022_alerts")]

    operations: ClassVar = [
        migrations.AddIndex(
            "thread",
            models.Index(
                fields=["project", "status", "-listed_at"],
                name="thread_nearly_full",
                condition=models.Q(nearly_full=True),
            ),
        ),
        migrations.AddIndex(
            "thread",
            models.Index(
                fields=["project", "status"],
                name="thread_own_retention",
                condition=models.Q(KeepsOwnRetention("config")),
            ),
        ),
    ]
