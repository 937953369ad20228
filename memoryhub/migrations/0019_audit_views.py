from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    """Find the audit entries of one view; no row changes."""

    dependencies: ClassVar = [("memoryhub", "0018_predicates_due")]

    operations: ClassVar = [
        migrations.AddIndex(
            "auditentry",
            models.Index(
                fields=["request_id", "seq"],
                name="audit_view",
                condition=models.Q(request_id__isnull=False),
            ),
        ),
    ]
