from __future__ import annotations

from typing import ClassVar

import django.db.models.deletion
from django.db import migrations, models

import memoryhub.models.server.ids


class Migration(migrations.Migration):
    dependencies: ClassVar = [("memoryhub", "0021_prices")]

    operations: ClassVar = [
        migrations.AddField(
            model_name="project",
            name="alert_mail",
            field=models.EmailField(default="", max_length=254),
        ),
        migrations.AddField(
            model_name="project",
            name="alert_tone",
            field=models.CharField(
                choices=[("bad", "red"), ("attn", "amber or red")],
                default="bad",
                max_length=4,
            ),
        ),
        migrations.AddField(
            model_name="project",
            name="least_hit_percent",
            field=models.IntegerField(null=True),
        ),
        migrations.AddField(
            model_name="project",
            name="least_resident_percent",
            field=models.IntegerField(null=True),
        ),
        migrations.AddField(
            model_name="project",
            name="most_model_failures",
            field=models.IntegerField(null=True),
        ),
        migrations.AddField(
            model_name="project",
            name="most_refaults",
            field=models.IntegerField(null=True),
        ),
        migrations.AddField(
            model_name="project",
            name="most_refusals",
            field=models.IntegerField(null=True),
        ),
        migrations.AddField(
            model_name="project",
            name="most_refused_fetches",
            field=models.IntegerField(null=True),
        ),
        migrations.CreateModel(
            name="Alert",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=memoryhub.models.server.ids.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("check_key", models.CharField(max_length=40)),
                ("tone", models.CharField(max_length=4)),
                ("reason", models.CharField(max_length=300)),
                ("since", models.DateTimeField()),
                ("began_at", models.DateTimeField()),
                ("well_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="memoryhub.project",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="AlertNotice",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=memoryhub.models.server.ids.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[("alert.raised", "Raised"), ("alert.ended", "Ended")],
                        max_length=12,
                    ),
                ),
                ("tone", models.CharField(max_length=4)),
                ("webhook", models.UUIDField(null=True)),
                ("receiver", models.CharField(max_length=254)),
                ("made_at", models.DateTimeField()),
                ("due_at", models.DateTimeField(null=True)),
                ("failures", models.IntegerField(default=0)),
                ("sent_at", models.DateTimeField(null=True)),
                (
                    "alert",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="notices",
                        to="memoryhub.alert",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="AlertSilence",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "project_id",
                        "check_key",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("check_key", models.CharField(max_length=40)),
                ("until", models.DateTimeField()),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="memoryhub.project",
                    ),
                ),
            ],
        ),
        migrations.AddIndex(
            model_name="alert",
            index=models.Index(fields=["project", "-began_at"], name="alert_history"),
        ),
        migrations.AddIndex(
            model_name="alert",
            index=models.Index(fields=["ended_at"], name="alert_age"),
        ),
        migrations.AddConstraint(
            model_name="alert",
            constraint=models.UniqueConstraint(
                condition=models.Q(("ended_at__isnull", True)),
                fields=("project", "check_key"),
                name="open_alert",
            ),
        ),
        migrations.AddIndex(
            model_name="alertnotice",
            index=models.Index(
                condition=models.Q(("due_at__isnull", False)),
                fields=["webhook", "due_at"],
                name="alert_notice_due",
            ),
        ),
    ]
