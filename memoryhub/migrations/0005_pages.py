"""The page table, and what a thread's row tells of its working set.

SQLite makes the thread's table anew for its columns, which the triggers on events name:
they are taken off for that time.
"""

from importlib import import_module
from typing import Any

import django.db.models.deletion
from django.db import migrations, models

import memoryhub.models.server.ids

# A module whose name begins with a digit can't be named in an import.
triggers = import_module("memoryhub.migrations.0002_append_only")


def guard(apps: Any, schema_editor: Any) -> None:
    """The triggers again, which now hold an event to its page too."""
    triggers.guard(schema_editor, fixed=triggers.FIXED, named=("page",))


def fill(apps: Any, schema_editor: Any) -> None:
    """What journals from before paging fold to by now."""
    apps.get_model("memoryhub", "Thread").objects.update(capacity_tokens=124_000)
    counters = '{"hits":0,"misses":0}'
    apps.get_model("memoryhub", "Turn").objects.update(counters=counters)
    # They lack the counters; the next writes make new ones.
    apps.get_model("memoryhub", "Snapshot").objects.all().delete()


class Migration(migrations.Migration):
    dependencies = [
        ("memoryhub", "0004_heartbeats"),
    ]

    operations = [
        migrations.RunPython(
            triggers.drop, triggers.add, hints={"home": "default"}, elidable=False
        ),
        migrations.CreateModel(
            name="Page",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "thread_id",
                        "page_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "thread",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="pages",
                        to="memoryhub.thread",
                    ),
                ),
                ("page_id", memoryhub.models.server.ids.NameField(max_length=128)),
                ("created_seq", models.BigIntegerField()),
                ("created_turn", models.BigIntegerField()),
                ("seq", models.BigIntegerField()),
                ("deleted_seq", models.BigIntegerField(null=True)),
                ("version", models.IntegerField()),
                ("type", models.CharField(max_length=10)),
                ("modality", models.CharField(max_length=10)),
                ("importance", models.FloatField()),
                ("role", models.CharField(max_length=9, null=True)),
                ("slot", models.BigIntegerField(null=True)),
                ("home", models.CharField(default="L2", max_length=2)),
                ("full_seq", models.BigIntegerField()),
                ("full_thread", models.UUIDField(null=True)),
                ("tokens", models.IntegerField()),
                ("cost", models.BigIntegerField()),
                ("hint_seq", models.BigIntegerField(null=True)),
                ("hint_thread", models.UUIDField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="PageLevel",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "thread_id",
                        "page_id",
                        "version",
                        "level",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "thread",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="page_levels",
                        to="memoryhub.thread",
                    ),
                ),
                ("page_id", memoryhub.models.server.ids.NameField(max_length=128)),
                ("version", models.IntegerField()),
                ("level", models.IntegerField()),
                ("seq", models.BigIntegerField()),
                ("source", models.UUIDField(null=True)),
                ("tokens", models.IntegerField()),
                ("cost", models.BigIntegerField()),
                ("producer", models.CharField(default="", max_length=64)),
                ("home", models.CharField(default="L2", max_length=2)),
            ],
        ),
        migrations.AddField(
            model_name="event",
            name="page",
            field=memoryhub.models.server.ids.NameField(max_length=128, null=True),
        ),
        migrations.AddField(
            model_name="thread",
            name="capacity_tokens",
            field=models.IntegerField(default=0),
        ),
        migrations.AddField(
            model_name="thread",
            name="eviction_count",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="thread",
            name="fault_count",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="thread",
            name="levels_due",
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name="thread",
            name="refault_count",
            field=models.IntegerField(default=0),
        ),
        migrations.AddField(
            model_name="thread",
            name="resident_tokens",
            field=models.IntegerField(default=0),
        ),
        migrations.AddField(
            model_name="thread",
            name="tlb_hits",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="thread",
            name="tlb_misses",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="turn",
            name="counters",
            field=models.TextField(default="{}"),
        ),
        migrations.AddIndex(
            model_name="event",
            index=models.Index(
                condition=models.Q(("page__isnull", False)),
                fields=["thread", "page", "seq"],
                name="event_page",
            ),
        ),
        migrations.AddIndex(
            model_name="event",
            index=models.Index(
                condition=models.Q(("erased_by__isnull", False)),
                fields=["thread", "seq"],
                name="event_erased",
            ),
        ),
        migrations.AddIndex(
            model_name="thread",
            index=models.Index(
                condition=models.Q(("levels_due", True)),
                fields=["listed_at"],
                name="thread_levels_due",
            ),
        ),
        migrations.AddIndex(
            model_name="page",
            index=models.Index(fields=["thread", "seq"], name="page_seq"),
        ),
        migrations.AddIndex(
            model_name="page",
            index=models.Index(fields=["thread", "type", "seq"], name="page_type"),
        ),
        migrations.RunPython(
            fill,
            migrations.RunPython.noop,
            hints={"home": "default"},
            elidable=False,
        ),
        migrations.RunPython(
            guard, triggers.drop, hints={"home": "default"}, elidable=False
        ),
    ]
