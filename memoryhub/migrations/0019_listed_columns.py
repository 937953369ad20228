"""What lists of threads sort by beside their activity, creation and slots.

The triggers on events are taken off while SQLite makes the threads' table anew.
"""

from importlib import import_module
from typing import Any

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.models import Case, F, Value, When
from django.db.models.functions import Least

# Modules whose names begin with a digit can't be named in an import.
triggers = import_module("memoryhub.migrations.0002_append_only")
pages = import_module("memoryhub.migrations.0005_pages")


#: Behind the best rate, which is 1,000.
UNRATED = 1_001


def fill(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    threads: Any = apps.get_model("memoryhub", "Thread")._default_manager
    alias = schema_editor.connection.alias
    last = Least(F("exchange_count"), Value(20))
    threads.using(alias).update(
        listed_turns=F("turn_count"),
        listed_tokens=F("token_count"),
        listed_resident=F("resident_tokens"),
        listed_faults=F("fault_count"),
        listed_rate=Case(
            When(exchange_count=0, then=Value(UNRATED)),
            default=Value(1_000) - F("faulted_lately_count") * 1_000 / last,
            output_field=models.IntegerField(),
        ),
    )


COUNTS = ("turns", "tokens", "faults")
ORDERS = ("turns", "tokens", "resident", "faults", "rate")


class Migration(migrations.Migration):
    dependencies = [("memoryhub", "0018_key_names")]

    operations = [
        migrations.RunPython(
            triggers.drop, pages.guard, hints={"home": "default"}, elidable=False
        ),
        *(
            migrations.AddField(
                model_name="thread",
                name=f"listed_{count}",
                field=models.BigIntegerField(default=0),
            )
            for count in COUNTS
        ),
        migrations.AddField(
            model_name="thread",
            name="listed_resident",
            field=models.IntegerField(default=0),
        ),
        migrations.AddField(
            model_name="thread",
            name="listed_rate",
            field=models.IntegerField(default=UNRATED),
        ),
        migrations.RunPython(
            fill, migrations.RunPython.noop, hints={"home": "default"}, elidable=False
        ),
        *(
            migrations.AddIndex(
                model_name="thread",
                index=models.Index(
                    fields=["project", f"-listed_{order}", "id"],
                    name=f"thread_by_{order}",
                ),
            )
            for order in ORDERS
        ),
        migrations.RunPython(
            pages.guard, triggers.drop, hints={"home": "default"}, elidable=False
        ),
    ]
