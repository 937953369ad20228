"""Totals: how much there is of each subject, counted once and kept from now on."""

from typing import Any

import django.db.models.deletion
from django.db import migrations, models

_OF = """
  JOIN memoryhub_thread thread ON thread.id = own.thread_id
  JOIN memoryhub_subject subject ON subject.id = thread.subject_id
 WHERE thread.status <> 'importing' AND subject.state <> 'erased'
 GROUP BY 1, 2
"""
_ROWS = """
INSERT INTO memoryhub_total (subject_id, kind, records, sealed, erased, bytes)
SELECT thread.subject_id, {kind}, COUNT(*), 0, 0, 0 FROM {table} own
"""
FILLS = (
    """
    INSERT INTO memoryhub_total (subject_id, kind, records, sealed, erased, bytes)
    SELECT thread.subject_id, own.type, COUNT(*), COUNT(own.payload),
           COUNT(own.erased_by), COALESCE(SUM(LENGTH(own.payload)), 0)
      FROM memoryhub_event own
    """,
    _ROWS.format(
        kind="CASE WHEN deleted_seq IS NULL THEN 'pages' ELSE 'pages:deleted' END",
        table="memoryhub_page",
    ),
    _ROWS.format(
        kind="'levels:' || CAST(own.level AS VARCHAR(9))", table="memoryhub_pagelevel"
    ),
    _ROWS.format(kind="'keys'", table="memoryhub_key"),
    # Each thread is its own.
    _ROWS.format(
        kind="'threads:' || thread.status",
        table="(SELECT id AS thread_id FROM memoryhub_thread)",
    ),
)


def fill(apps: Any, schema_editor: Any) -> None:
    """What is there already."""
    for statement in FILLS:
        schema_editor.execute(statement + _OF)


class Migration(migrations.Migration):
    dependencies = [
        ("memoryhub", "0009_deleted_projects"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="thread",
            index=models.Index(
                fields=["project", "subject", "created_at"], name="thread_first_seen"
            ),
        ),
        migrations.CreateModel(
            name="Total",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "subject_id",
                        "kind",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("kind", models.CharField(max_length=40)),
                ("records", models.BigIntegerField(default=0)),
                ("sealed", models.BigIntegerField(default=0)),
                ("erased", models.BigIntegerField(default=0)),
                ("bytes", models.BigIntegerField(default=0)),
                (
                    "subject",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="totals",
                        to="memoryhub.subject",
                    ),
                ),
            ],
        ),
        migrations.RunPython(
            fill,
            migrations.RunPython.noop,
            hints={"home": "default"},
            elidable=False,
        ),
    ]
