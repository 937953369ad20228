"""API keys have names; and none was last used before it was made.

Uses are noted by the hour, which for a key's first hour began before the key.
"""

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

import memoryhub.models.server.ids


def begin_uses(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    keys = apps.get_model("memoryhub", "ApiKey").objects.using(editor.connection.alias)
    early = keys.filter(last_used_at__lt=models.F("created_at"))
    early.update(last_used_at=models.F("created_at"))


class Migration(migrations.Migration):
    dependencies = [("memoryhub", "0017_checkpoints")]

    operations = [
        migrations.AddField(
            model_name="apikey",
            name="name",
            field=memoryhub.models.server.ids.NameField(default="", max_length=64),
        ),
        migrations.RunPython(
            begin_uses,
            migrations.RunPython.noop,
            hints={"home": "default"},
            elidable=True,
        ),
    ]
