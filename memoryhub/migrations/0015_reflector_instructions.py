from __future__ import annotations

from typing import Any, ClassVar

from django.db import migrations, models


def copy_instructions(apps: Any, editor: Any) -> None:
    """Give each reflector the text that it had in common with the observer."""
    projects = apps.get_model("memoryhub", "Project").objects.using(
        editor.connection.alias
    )
    projects.update(reflector_instructions=models.F("observer_instructions"))


class Migration(migrations.Migration):
    dependencies: ClassVar = [("memoryhub", "0014_webhooks")]

    operations: ClassVar = [
        migrations.AddField(
            "project", "reflector_instructions", models.TextField(default="")
        ),
        migrations.RunPython(copy_instructions, migrations.RunPython.noop),
    ]
