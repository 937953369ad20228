"""Idempotency-Keys of requests about a person: of no thread, gone with her."""

from typing import Any

import django.db.models.deletion
from django.db import migrations, models


def fill(apps: Any, schema_editor: Any) -> None:
    """Those that are there belong to the subjects of their threads."""
    threads = apps.get_model("memoryhub", "Thread").objects
    of = threads.filter(id=models.OuterRef("thread")).values("subject")
    rows = apps.get_model("memoryhub", "RequestKey").objects
    rows.update(subject=models.Subquery(of))


def drop(apps: Any, schema_editor: Any) -> None:
    """Before them there was none without a thread."""
    apps.get_model("memoryhub", "RequestKey").objects.filter(thread=None).delete()


class Migration(migrations.Migration):
    dependencies = [
        ("memoryhub", "0007_privacy"),
    ]

    operations = [
        migrations.AddField(
            model_name="requestkey",
            name="erasure",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="memoryhub.erasure",
            ),
        ),
        migrations.AddField(
            model_name="requestkey",
            name="subject",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="request_keys",
                to="memoryhub.subject",
            ),
        ),
        migrations.AlterField(
            model_name="requestkey",
            name="thread",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="request_keys",
                to="memoryhub.thread",
            ),
        ),
        migrations.RunPython(fill, drop, hints={"home": "default"}, elidable=False),
        migrations.AlterField(
            model_name="requestkey",
            name="subject",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="request_keys",
                to="memoryhub.subject",
            ),
        ),
    ]
