import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import memoryhub.models.server.ids
import memoryhub.models.threads


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Project",
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
                    "slug",
                    memoryhub.models.server.ids.NameField(max_length=40, unique=True),
                ),
                ("created_at", models.DateTimeField()),
                ("create_on_write", models.BooleanField(default=True)),
                ("max_threads", models.IntegerField(default=100000)),
                ("thread_count", models.IntegerField(default=0)),
                ("retention_idle_days", models.IntegerField(null=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("max_threads__gte", 1)),
                        name="project_max_threads",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Subject",
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
                ("subject_ref", models.BinaryField(max_length=32, null=True)),
                ("external_id", models.BinaryField(null=True)),
                ("anonymous", models.BooleanField(default=False)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("active", "Active"),
                            ("restricted", "Restricted"),
                            ("erasing", "Erasing"),
                            ("erased", "Erased"),
                        ],
                        default="active",
                        max_length=10,
                    ),
                ),
                ("epoch", models.IntegerField(default=1)),
                ("generation", models.IntegerField(default=1)),
                ("created_at", models.DateTimeField()),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="subjects",
                        to="memoryhub.project",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("project", "subject_ref"), name="subject_ref_once"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(
                            ("anonymous", True),
                            models.Q(("state", "erased"), _negated=True),
                        ),
                        fields=("project",),
                        name="one_anonymous_subject",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ApiKey",
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
                    "prefix",
                    memoryhub.models.server.ids.NameField(max_length=8, unique=True),
                ),
                ("digest", models.BinaryField(max_length=32)),
                ("scopes", models.CharField(max_length=120)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField(null=True)),
                ("revoked_at", models.DateTimeField(null=True)),
                ("last_used_at", models.DateTimeField(null=True)),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="api_keys",
                        to="memoryhub.project",
                    ),
                ),
                (
                    "subject",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="api_keys",
                        to="memoryhub.subject",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="DestroyedKey",
            fields=[
                ("subject", models.UUIDField(primary_key=True, serialize=False)),
                ("erasure", models.UUIDField()),
                ("at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Thread",
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
                ("name", memoryhub.models.server.ids.NameField(max_length=128)),
                (
                    "name_salt",
                    models.BinaryField(
                        default=memoryhub.models.threads.name_salt, max_length=16
                    ),
                ),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("open", "Open"),
                            ("closed", "Closed"),
                            ("retired", "Retired"),
                            ("importing", "Importing"),
                            ("erased", "Erased"),
                        ],
                        default="open",
                        max_length=10,
                    ),
                ),
                (
                    "agent_type",
                    memoryhub.models.server.ids.NameField(max_length=128, null=True),
                ),
                (
                    "agent_instance",
                    memoryhub.models.server.ids.NameField(max_length=128, null=True),
                ),
                (
                    "session",
                    memoryhub.models.server.ids.NameField(max_length=128, null=True),
                ),
                ("fork_seq", models.BigIntegerField(null=True)),
                ("lineage", models.TextField(default="[]")),
                ("labels", models.TextField(default="{}")),
                ("config", models.TextField(default="{}")),
                ("head_seq", models.BigIntegerField(default=0)),
                ("head_hash", models.BinaryField(default=bytes, max_length=32)),
                ("slot_count", models.BigIntegerField(default=0)),
                ("nearly_full", models.BooleanField(default=False)),
                ("turn_count", models.BigIntegerField(default=0)),
                ("token_count", models.BigIntegerField(default=0)),
                ("byte_count", models.BigIntegerField(default=0)),
                ("created_at", models.DateTimeField()),
                ("last_event_at", models.DateTimeField()),
                ("last_event_type", models.CharField(default="", max_length=40)),
                ("last_active_at", models.DateTimeField(null=True)),
                ("listed_at", models.DateTimeField()),
                ("listed_slots", models.BigIntegerField(default=0)),
                (
                    "parent",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="forks",
                        to="memoryhub.thread",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="threads",
                        to="memoryhub.project",
                    ),
                ),
                (
                    "subject",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="threads",
                        to="memoryhub.subject",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        fields=["project", "-listed_at", "id"], name="thread_listed"
                    ),
                    models.Index(
                        fields=["project", "status", "-listed_at", "id"],
                        name="thread_status",
                    ),
                    models.Index(
                        fields=["project", "subject", "-listed_at", "id"],
                        name="thread_subject",
                    ),
                    models.Index(
                        fields=["project", "agent_type", "-listed_at", "id"],
                        name="thread_agent_type",
                    ),
                    models.Index(
                        fields=["project", "agent_instance", "-listed_at", "id"],
                        name="thread_agent_instance",
                    ),
                    models.Index(
                        fields=["project", "session", "-listed_at", "id"],
                        name="thread_session",
                    ),
                    models.Index(
                        fields=["project", "-listed_slots", "id"],
                        name="thread_by_slots",
                    ),
                    models.Index(
                        fields=["project", "-created_at", "id"],
                        name="thread_by_created",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("project", "name"), name="thread_name_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Event",
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
                ("type", models.CharField(max_length=40)),
                ("at", models.DateTimeField()),
                ("actor", models.CharField(max_length=64)),
                ("body", models.TextField()),
                ("payload", models.BinaryField(null=True)),
                ("payload_digest", models.BinaryField(max_length=32, null=True)),
                ("erased_by", models.BigIntegerField(null=True)),
                ("chain", models.BinaryField(max_length=32)),
                (
                    "thread",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="events",
                        to="memoryhub.thread",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Instance",
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
                ("created_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="KekCheck",
            fields=[
                (
                    "kek_id",
                    models.CharField(max_length=16, primary_key=True, serialize=False),
                ),
                ("sealed", models.BinaryField(max_length=60)),
                (
                    "state",
                    models.CharField(
                        choices=[("current", "Current"), ("retired", "Retired")],
                        default="current",
                        max_length=7,
                    ),
                ),
                ("created_at", models.DateTimeField()),
                ("backed_up_at", models.DateTimeField(null=True)),
                ("retired_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="KeyMeta",
            fields=[
                (
                    "id",
                    models.PositiveSmallIntegerField(
                        default=1, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("instance", models.UUIDField()),
                ("ledger_n", models.BigIntegerField(default=0)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("id", 1)), name="one_key_meta"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Operator",
            fields=[
                ("password", models.CharField(max_length=128, verbose_name="password")),
                (
                    "last_login",
                    models.DateTimeField(
                        blank=True, null=True, verbose_name="last login"
                    ),
                ),
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
                    "username",
                    memoryhub.models.server.ids.NameField(max_length=64, unique=True),
                ),
                ("is_active", models.BooleanField(default=True)),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="Membership",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "project_id",
                        "operator_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "role",
                    models.CharField(
                        choices=[
                            ("viewer", "Viewer"),
                            ("editor", "Editor"),
                            ("officer", "Officer"),
                            ("owner", "Owner"),
                        ],
                        max_length=7,
                    ),
                ),
                (
                    "operator",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to="memoryhub.project",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ProjectKey",
            fields=[
                ("project", models.UUIDField(primary_key=True, serialize=False)),
                ("kek_id", models.CharField(db_index=True, max_length=16)),
                ("wrapped", models.BinaryField(max_length=60)),
            ],
        ),
        migrations.CreateModel(
            name="ProjectStats",
            fields=[
                (
                    "project",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="stats",
                        serialize=False,
                        to="memoryhub.project",
                    ),
                ),
                ("taken_at", models.DateTimeField()),
                ("open_threads", models.IntegerField(default=0)),
                ("closed_threads", models.IntegerField(default=0)),
                ("retired_threads", models.IntegerField(default=0)),
                ("erased_threads", models.IntegerField(default=0)),
                ("nearly_full_threads", models.IntegerField(default=0)),
                ("slots", models.BigIntegerField(default=0)),
                ("tokens", models.BigIntegerField(default=0)),
                ("bytes", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="RequestKey",
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
                ("digest", models.BinaryField(max_length=16)),
                ("request", models.BinaryField(max_length=16)),
                ("first_seq", models.BigIntegerField()),
                ("last_seq", models.BigIntegerField()),
                ("created_at", models.DateTimeField()),
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
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="request_keys",
                        to="memoryhub.thread",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["created_at"], name="request_key_age")
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("project", "digest"), name="request_key_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="SigningKey",
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
                ("kek_id", models.CharField(db_index=True, max_length=16)),
                ("wrapped", models.BinaryField(max_length=60)),
                ("public", models.BinaryField(max_length=32)),
                ("created_at", models.DateTimeField()),
                ("retired_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="SignInLink",
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
                ("digest", models.BinaryField(max_length=32, unique=True)),
                ("expires_at", models.DateTimeField()),
                ("used_at", models.DateTimeField(null=True)),
                (
                    "operator",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="sign_in_links",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Slot",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "thread_id",
                        "index",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("index", models.BigIntegerField()),
                ("seq", models.BigIntegerField()),
                ("turn", models.BigIntegerField()),
                ("from_name", memoryhub.models.server.ids.NameField(max_length=128)),
                ("to_name", memoryhub.models.server.ids.NameField(max_length=128)),
                ("type", memoryhub.models.server.ids.NameField(max_length=128)),
                ("role", models.CharField(max_length=9, null=True)),
                ("tokens", models.IntegerField()),
                ("bytes", models.IntegerField()),
                ("erased", models.BooleanField(default=False)),
                (
                    "thread",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="slots",
                        to="memoryhub.thread",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["thread", "type", "index"], name="slot_type"),
                    models.Index(
                        fields=["thread", "from_name", "index"], name="slot_from"
                    ),
                    models.Index(fields=["thread", "seq"], name="slot_seq"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Snapshot",
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
                ("replay_format", models.IntegerField()),
                ("sealed", models.BinaryField()),
                ("counters", models.TextField()),
                (
                    "thread",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="snapshots",
                        to="memoryhub.thread",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="SubjectKey",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "subject",
                        "version",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("subject", models.UUIDField()),
                ("version", models.PositiveSmallIntegerField()),
                ("kek_id", models.CharField(db_index=True, max_length=16)),
                ("wrapped", models.BinaryField(max_length=60)),
                ("project", models.UUIDField()),
                ("seals", models.BigIntegerField(default=0)),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "indexes": [
                    models.Index(fields=["created_at"], name="subject_key_age")
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("version__gte", 1), ("version__lte", 255)),
                        name="subject_key_version",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ThreadLabel",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "thread_id",
                        "name",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("name", memoryhub.models.server.ids.NameField(max_length=128)),
                ("value", memoryhub.models.server.ids.NameField(max_length=128)),
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
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="thread_labels",
                        to="memoryhub.thread",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        fields=["project", "name", "value"], name="label_value"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Turn",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "thread_id",
                        "n",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("n", models.BigIntegerField()),
                ("seq", models.BigIntegerField()),
                ("packed_seq", models.BigIntegerField(null=True)),
                (
                    "thread",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="turns",
                        to="memoryhub.thread",
                    ),
                ),
            ],
        ),
    ]
