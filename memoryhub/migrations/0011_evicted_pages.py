from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models

from memoryhub.models.server.ids import NameField


class Migration(migrations.Migration):
    dependencies: ClassVar = [("memoryhub", "0010_consolidate_since")]

    operations: ClassVar = [
        migrations.CreateModel(
            name="EvictedPage",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "thread_id",
                        "page",
                        "seq",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("page", NameField(max_length=128)),
                ("seq", models.BigIntegerField()),
                (
                    "thread",
                    models.ForeignKey(
                        "memoryhub.thread",
                        models.PROTECT,
                        related_name="evicted_pages",
                        db_index=False,
                    ),
                ),
            ],
        ),
    ]
