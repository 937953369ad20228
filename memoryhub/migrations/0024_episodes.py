"""Episodes: when a slot was appended, and whose it is that the user said."""

from typing import Any

import django.db.models.deletion
from django.db import migrations, models

_EVENT = """
UPDATE memoryhub_slot SET at = (
  SELECT event.at FROM memoryhub_event event
   WHERE event.thread_id = memoryhub_slot.thread_id AND event.seq = memoryhub_slot.seq)
"""
_SUBJECT = """
UPDATE memoryhub_slot SET subject_id = (
  SELECT subject_id FROM memoryhub_thread WHERE id = memoryhub_slot.thread_id)
 WHERE role = 'user'
"""
_TOTAL = """
INSERT INTO memoryhub_total (subject_id, kind, records, sealed, erased, bytes)
SELECT thread.subject_id, 'episodes', COUNT(*), 0, 0, 0 FROM memoryhub_slot own
  JOIN memoryhub_thread thread ON thread.id = own.thread_id
  JOIN memoryhub_subject subject ON subject.id = thread.subject_id
 WHERE thread.status <> 'importing' AND subject.state <> 'erased'
   AND own.role = 'user' AND NOT own.erased
 GROUP BY 1
"""


def fill(apps: Any, schema_editor: Any) -> None:
    """What is there already."""
    gone = "DELETE FROM memoryhub_total WHERE kind = 'episodes'"
    for statement in (_EVENT, _SUBJECT, gone, _TOTAL):
        schema_editor.execute(statement)
    if schema_editor.connection.vendor == "postgresql":
        # It alters no table of which a reference is still to be checked.
        schema_editor.execute("SET CONSTRAINTS ALL IMMEDIATE")


class Migration(migrations.Migration):
    dependencies = [("memoryhub", "0023_assertions")]

    operations = [
        migrations.AddField(
            model_name="slot", name="at", field=models.DateTimeField(null=True)
        ),
        migrations.AddField(
            model_name="slot",
            name="subject",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="memoryhub.subject",
            ),
        ),
        migrations.RunPython(
            fill, migrations.RunPython.noop, hints={"home": "default"}, elidable=False
        ),
        migrations.AlterField(
            model_name="slot", name="at", field=models.DateTimeField()
        ),
        migrations.AddIndex(
            model_name="slot",
            index=models.Index(
                condition=models.Q(("role", "user")),
                fields=["subject", "-at", "-thread", "-index"],
                name="episode_at",
            ),
        ),
        migrations.AddIndex(
            model_name="slot",
            index=models.Index(
                condition=models.Q(("role", "user")),
                fields=["thread", "index"],
                name="episode_begins",
            ),
        ),
    ]
