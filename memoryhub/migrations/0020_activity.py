"""What is counted of projects and refusals, and which threads need a look."""

import django.db.models.deletion
from django.db import migrations, models

import memoryhub.models.server.ids

FIGURES = (
    *("events", "turns", "tokens", "prefix_tokens", "exchanges", "faulted_exchanges"),
    *("faults", "refaults", "within_1", "within_2", "within_5", "within_10"),
    *("within_20", "within_50", "within_100", "within_200", "within_500"),
    *("within_1000", "slower"),
)


class Migration(migrations.Migration):
    dependencies = [("memoryhub", "0019_listed_columns")]

    operations = [
        migrations.AddField(
            model_name="projectstats",
            name="unhealthy_threads",
            field=models.IntegerField(default=0),
        ),
        migrations.AddField(
            model_name="projectstats",
            name="unhealthy",
            field=models.TextField(default="[]"),
        ),
        migrations.CreateModel(
            name="ProjectHour",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "project_id",
                        "minutes",
                        "at",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("minutes", models.PositiveSmallIntegerField()),
                ("at", models.DateTimeField()),
                *((name, models.BigIntegerField(default=0)) for name in FIGURES),
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
        migrations.CreateModel(
            name="RefusalCount",
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
                ("minutes", models.PositiveSmallIntegerField()),
                ("at", models.DateTimeField()),
                ("code", models.CharField(max_length=40)),
                ("count", models.BigIntegerField(default=0)),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="memoryhub.project",
                    ),
                ),
                (
                    "thread",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="memoryhub.thread",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        fields=["project", "-at"],
                        name="refusals_listed",
                        condition=models.Q(thread__isnull=False),
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        name="refusals_of_project",
                        fields=["project", "minutes", "at", "code"],
                        condition=models.Q(thread__isnull=True),
                    ),
                    models.UniqueConstraint(
                        name="refusals_of_thread",
                        fields=["thread", "at", "code"],
                        condition=models.Q(thread__isnull=False),
                    ),
                ],
            },
        ),
    ]
