"""Home threads: one of each subject that is not erased.

The triggers on events are taken off while SQLite makes the threads' table anew.
"""

from importlib import import_module

from django.db import migrations, models

# Modules whose names begin with a digit can't be named in an import.
triggers = import_module("memoryhub.migrations.0002_append_only")
pages = import_module("memoryhub.migrations.0005_pages")


class Migration(migrations.Migration):
    dependencies = [("memoryhub", "0021_thread_terms")]

    operations = [
        migrations.RunPython(
            triggers.drop, pages.guard, hints={"home": "default"}, elidable=False
        ),
        migrations.AddField(
            model_name="thread",
            name="home",
            field=models.BooleanField(default=False),
        ),
        migrations.AddConstraint(
            model_name="thread",
            constraint=models.UniqueConstraint(
                name="one_home_thread",
                fields=("subject",),
                condition=models.Q(
                    ("home", True),
                    models.Q(("status__in", ["erased", "importing"]), _negated=True),
                ),
            ),
        ),
        migrations.RunPython(
            pages.guard, triggers.drop, hints={"home": "default"}, elidable=False
        ),
    ]
