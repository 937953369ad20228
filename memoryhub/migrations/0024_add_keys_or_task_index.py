from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models

from memoryhub.models.events import ChangesKeysOrTask


class Migration(migrations.Migration):
    """Find the events that change a key or the task; no row changes."""

    dependencies: ClassVar = [("memoryhub", "0023_bounded_counts")]

    operations: ClassVar = [
        migrations.AddIndex(
            "event",
            models.Index(
                fields=["thread", "seq"],
                name="event_keys_or_task",
                condition=models.Q(ChangesKeysOrTask("type")),
            ),
        ),
    ]
