"""Projects that are deleted: since when, why and by whom, and that their key is gone."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("memoryhub", "0008_requests_about_people"),
    ]

    operations = [
        migrations.CreateModel(
            name="DestroyedProjectKey",
            fields=[
                ("project", models.UUIDField(primary_key=True, serialize=False)),
                ("at", models.DateTimeField()),
            ],
        ),
        migrations.AddField(
            model_name="project",
            name="state",
            field=models.CharField(
                choices=[
                    ("active", "Active"),
                    ("deleting", "Deleting"),
                    ("deleted", "Deleted"),
                ],
                default="active",
                max_length=8,
            ),
        ),
        migrations.AddField(
            model_name="project",
            name="deletion_reason",
            field=models.CharField(default="", max_length=17),
        ),
        migrations.AddField(
            model_name="project",
            name="deletion_ticket",
            field=models.CharField(max_length=19, null=True),
        ),
        migrations.AddField(
            model_name="project",
            name="deletion_actor",
            field=models.CharField(default="", max_length=64),
        ),
        migrations.AddField(
            model_name="project",
            name="deletion_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="project",
            name="deleted_at",
            field=models.DateTimeField(null=True),
        ),
    ]
