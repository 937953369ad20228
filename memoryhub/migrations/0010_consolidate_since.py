from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    """Projects that have all asked go on so: None."""

    dependencies: ClassVar = [("memoryhub", "0009_terms_anew")]

    operations: ClassVar = [
        migrations.AddField(
            "project", "consolidate_since", models.DateTimeField(null=True)
        ),
    ]
