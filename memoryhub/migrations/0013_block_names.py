from __future__ import annotations

from typing import ClassVar

from django.db import migrations

from memoryhub.models.server.ids import NameField


class Migration(migrations.Migration):
    dependencies: ClassVar = [("memoryhub", "0012_struck_slots")]

    operations: ClassVar = [
        migrations.AddField(
            model_name="page",
            name="name",
            field=NameField(max_length=128, null=True),
        ),
    ]
