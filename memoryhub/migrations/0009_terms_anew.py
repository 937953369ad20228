from __future__ import annotations

from typing import ClassVar

from django.db import migrations


class Migration(migrations.Migration):
    """Delete segments whose terms have accents; the worker writes them anew."""

    dependencies: ClassVar = [("memoryhub", "0008_erasure_defect")]

    operations: ClassVar = [
        migrations.RunSQL(
            "DELETE FROM memoryhub_threadterms",
            migrations.RunSQL.noop,
            hints={"home": "default"},
            elidable=True,
        )
    ]
