from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models

from memoryhub.models.server.ids import uuid7


class Migration(migrations.Migration):
    dependencies: ClassVar = [("memoryhub", "0013_block_names")]

    operations: ClassVar = [
        migrations.CreateModel(
            name="WebhookKey",
            fields=[
                ("kek_id", models.CharField(db_index=True, max_length=16)),
                ("wrapped", models.BinaryField(max_length=60)),
                ("webhook", models.UUIDField(primary_key=True, serialize=False)),
            ],
            options={"abstract": False},
        ),
        migrations.AddField(
            "project", "has_webhooks", models.BooleanField(default=False)
        ),
        migrations.CreateModel(
            name="Webhook",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("url", models.CharField(max_length=500)),
                ("types", models.TextField()),
                ("paused", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField()),
                ("test_at", models.DateTimeField(null=True)),
                ("tried_at", models.DateTimeField(null=True)),
                ("outcome", models.CharField(default="", max_length=11)),
                ("status", models.IntegerField(null=True)),
                ("delivered_at", models.DateTimeField(null=True)),
                ("failures", models.IntegerField(default=0)),
                ("retry_at", models.DateTimeField(null=True)),
                (
                    "project",
                    models.ForeignKey(
                        "memoryhub.project", models.PROTECT, related_name="webhooks"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="WebhookQueue",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "thread_id",
                        "webhook",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("webhook", models.UUIDField()),
                ("sent_seq", models.BigIntegerField()),
                ("head_seq", models.BigIntegerField()),
                ("due_at", models.DateTimeField()),
                ("failures", models.IntegerField()),
                (
                    "thread",
                    models.ForeignKey(
                        "memoryhub.thread",
                        models.PROTECT,
                        related_name="webhook_queues",
                        db_index=False,
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["webhook", "due_at"], name="webhook_due")
                ],
            },
        ),
    ]
