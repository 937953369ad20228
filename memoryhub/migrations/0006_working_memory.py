"""Working memory: rows of keys, values that are due, and what a project says of both."""

import django.db.models.deletion
from django.db import migrations, models

import memoryhub.models.server.ids


class Migration(migrations.Migration):
    dependencies = [
        ("memoryhub", "0005_pages"),
    ]

    operations = [
        migrations.AddField(
            model_name="project",
            name="default_ttl_seconds",
            field=models.IntegerField(null=True),
        ),
        migrations.AddField(
            model_name="project",
            name="expired_value_grace_seconds",
            field=models.IntegerField(default=86400, null=True),
        ),
        migrations.CreateModel(
            name="DueValue",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "thread_id",
                        "seq",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("seq", models.BigIntegerField()),
                ("due_at", models.DateTimeField()),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="memoryhub.project",
                    ),
                ),
                (
                    "thread",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="due_values",
                        to="memoryhub.thread",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        fields=["project", "due_at", "thread", "seq"],
                        name="due_value_at",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Key",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "thread_id",
                        "key",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("key", memoryhub.models.server.ids.NameField(max_length=128)),
                ("version", models.BigIntegerField()),
                ("value_thread", models.UUIDField()),
                ("value_seq", models.BigIntegerField()),
                ("bytes", models.IntegerField()),
                ("json_type", models.CharField(max_length=7)),
                ("expires_at", models.DateTimeField(null=True)),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="memoryhub.project",
                    ),
                ),
                (
                    "thread",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="keys",
                        to="memoryhub.thread",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("expires_at__isnull", False)),
                        fields=["expires_at", "thread", "key"],
                        name="key_expiry",
                    ),
                    models.Index(
                        condition=models.Q(("expires_at__isnull", False)),
                        fields=["project", "expires_at"],
                        name="key_project_expiry",
                    ),
                    models.Index(fields=["project", "-bytes"], name="key_bytes"),
                ],
            },
        ),
    ]
