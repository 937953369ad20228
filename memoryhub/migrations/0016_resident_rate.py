"""What a thread's row tells of its resident rate.

The triggers on events are taken off while SQLite makes the threads' table anew.
"""

from importlib import import_module

from django.db import migrations, models

# Modules whose names begin with a digit can't be named in an import.
triggers = import_module("memoryhub.migrations.0002_append_only")
pages = import_module("memoryhub.migrations.0005_pages")


class Migration(migrations.Migration):
    dependencies = [("memoryhub", "0015_tombstones_of")]

    operations = [
        migrations.RunPython(
            triggers.drop, pages.guard, hints={"home": "default"}, elidable=False
        ),
        migrations.AddField(
            model_name="thread",
            name="exchange_count",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="thread",
            name="faulted_exchange_count",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="thread",
            name="faulted_lately_count",
            field=models.IntegerField(default=0),
        ),
        migrations.RunPython(
            pages.guard, triggers.drop, hints={"home": "default"}, elidable=False
        ),
    ]
