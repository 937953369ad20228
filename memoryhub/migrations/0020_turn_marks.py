from __future__ import annotations

from typing import ClassVar

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("memoryhub", "0019_audit_views")]

    operations: ClassVar = [
        migrations.CreateModel(
            name="MarkedTurn",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "thread_id",
                        "turn",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("turn", models.BigIntegerField()),
                ("mark", models.CharField(max_length=5)),
                ("at", models.DateTimeField()),
                ("by", models.CharField(max_length=64)),
                ("event_thread", models.UUIDField()),
                ("event_seq", models.BigIntegerField()),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="memoryhub.project",
                    ),
                ),
                (
                    "subject",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="memoryhub.subject",
                    ),
                ),
                (
                    "thread",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="marked_turns",
                        to="memoryhub.thread",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        fields=["project", "-at", "-thread", "-turn"],
                        name="marked_turn_at",
                    ),
                    models.Index(
                        fields=["project", "mark", "-at", "-thread", "-turn"],
                        name="marked_turn_word",
                    ),
                    models.Index(
                        fields=["subject", "-at", "-thread", "-turn"],
                        name="marked_turn_subject",
                    ),
                ],
            },
        ),
    ]
