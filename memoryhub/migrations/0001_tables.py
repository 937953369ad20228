"""All tables, with their indexes and constraints."""

from django.conf import settings
from django.db import migrations, models

from memoryhub.models import threads
from memoryhub.models.server import ids


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
                        default=ids.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "slug",
                    ids.NameField(max_length=40, unique=True),
                ),
                ("created_at", models.DateTimeField()),
                ("create_on_write", models.BooleanField(default=True)),
                ("max_threads", models.IntegerField(default=100000)),
                ("thread_count", models.IntegerField(default=0)),
                ("retention_idle_days", models.IntegerField(null=True)),
                ("default_ttl_seconds", models.IntegerField(null=True)),
                (
                    "expired_value_grace_seconds",
                    models.IntegerField(default=86400, null=True),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("active", "Active"),
                            ("deleting", "Deleting"),
                            ("deleted", "Deleted"),
                        ],
                        default="active",
                        max_length=8,
                    ),
                ),
                ("deletion_reason", models.CharField(default="", max_length=17)),
                ("deletion_ticket", models.CharField(max_length=19, null=True)),
                ("deletion_actor", models.CharField(default="", max_length=64)),
                ("deletion_at", models.DateTimeField(null=True)),
                ("deleted_at", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("max_threads__gte", 1)),
                        name="project_max_threads",
                    )
                ]
            },
        ),
        migrations.CreateModel(
            name="Subject",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=ids.uuid7,
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
                        on_delete=models.PROTECT,
                        related_name="subjects",
                        to="memoryhub.project",
                    ),
                ),
                ("basis", models.CharField(default="", max_length=20)),
                ("tombstones", models.IntegerField(default=0)),
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
                ]
            },
        ),
        migrations.CreateModel(
            name="ApiKey",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=ids.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "prefix",
                    ids.NameField(max_length=8, unique=True),
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
                        on_delete=models.PROTECT,
                        related_name="api_keys",
                        to="memoryhub.project",
                    ),
                ),
                (
                    "subject",
                    models.ForeignKey(
                        null=True,
                        on_delete=models.PROTECT,
                        related_name="api_keys",
                        to="memoryhub.subject",
                    ),
                ),
                (
                    "name",
                    ids.NameField(default="", max_length=64),
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
                        default=ids.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("name", ids.NameField(max_length=128)),
                (
                    "name_salt",
                    models.BinaryField(default=threads.name_salt, max_length=16),
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
                    ids.NameField(max_length=128, null=True),
                ),
                (
                    "agent_instance",
                    ids.NameField(max_length=128, null=True),
                ),
                (
                    "session",
                    ids.NameField(max_length=128, null=True),
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
                        on_delete=models.PROTECT,
                        related_name="forks",
                        to="memoryhub.thread",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.PROTECT,
                        related_name="threads",
                        to="memoryhub.project",
                    ),
                ),
                (
                    "subject",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.PROTECT,
                        related_name="threads",
                        to="memoryhub.subject",
                    ),
                ),
                ("capacity_tokens", models.IntegerField(default=0)),
                ("eviction_count", models.BigIntegerField(default=0)),
                ("fault_count", models.BigIntegerField(default=0)),
                ("levels_due", models.BooleanField(default=False)),
                ("refault_count", models.IntegerField(default=0)),
                ("resident_tokens", models.IntegerField(default=0)),
                ("tlb_hits", models.BigIntegerField(default=0)),
                ("tlb_misses", models.BigIntegerField(default=0)),
                ("anchored_hash", models.BinaryField(default=bytes, max_length=32)),
                ("anchored_seq", models.BigIntegerField(default=0)),
                ("blanked_seq", models.BigIntegerField(default=0)),
                ("origin", models.TextField(default="")),
                ("exchange_count", models.BigIntegerField(default=0)),
                ("faulted_exchange_count", models.BigIntegerField(default=0)),
                ("faulted_lately_count", models.IntegerField(default=0)),
                ("listed_turns", models.BigIntegerField(default=0)),
                ("listed_tokens", models.BigIntegerField(default=0)),
                ("listed_faults", models.BigIntegerField(default=0)),
                ("listed_resident", models.IntegerField(default=0)),
                ("listed_rate", models.IntegerField(default=1001)),
                ("home", models.BooleanField(default=False)),
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
                    models.Index(
                        condition=models.Q(("levels_due", True)),
                        fields=["listed_at"],
                        name="thread_levels_due",
                    ),
                    models.Index(
                        fields=["project", "subject", "created_at"],
                        name="thread_first_seen",
                    ),
                    models.Index(
                        fields=["project", "-listed_turns", "id"],
                        name="thread_by_turns",
                    ),
                    models.Index(
                        fields=["project", "-listed_tokens", "id"],
                        name="thread_by_tokens",
                    ),
                    models.Index(
                        fields=["project", "-listed_resident", "id"],
                        name="thread_by_resident",
                    ),
                    models.Index(
                        fields=["project", "-listed_faults", "id"],
                        name="thread_by_faults",
                    ),
                    models.Index(
                        fields=["project", "-listed_rate", "id"], name="thread_by_rate"
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("project", "name"), name="thread_name_once"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(
                            ("home", True),
                            models.Q(
                                ("status__in", ["erased", "importing"]), _negated=True
                            ),
                        ),
                        fields=("subject",),
                        name="one_home_thread",
                    ),
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
                        on_delete=models.PROTECT,
                        related_name="events",
                        to="memoryhub.thread",
                    ),
                ),
                (
                    "page",
                    ids.NameField(max_length=128, null=True),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("page__isnull", False)),
                        fields=["thread", "page", "seq"],
                        name="event_page",
                    ),
                    models.Index(
                        condition=models.Q(("erased_by__isnull", False)),
                        fields=["thread", "seq"],
                        name="event_erased",
                    ),
                ]
            },
        ),
        migrations.CreateModel(
            name="Instance",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=ids.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("created_at", models.DateTimeField()),
                ("audit_hash", models.BinaryField(default=bytes, max_length=32)),
                ("audit_seq", models.BigIntegerField(default=0)),
                ("ledger_hash", models.BinaryField(default=bytes, max_length=32)),
                ("ledger_n", models.BigIntegerField(default=0)),
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
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("id", 1)), name="one_key_meta"
                    )
                ]
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
                        default=ids.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "username",
                    ids.NameField(max_length=64, unique=True),
                ),
                ("is_active", models.BooleanField(default=True)),
                ("created_at", models.DateTimeField()),
            ],
            options={"abstract": False},
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
                        on_delete=models.CASCADE,
                        related_name="memberships",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.CASCADE,
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
                        on_delete=models.CASCADE,
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
                ("unhealthy_threads", models.IntegerField(default=0)),
                ("unhealthy", models.TextField(default="[]")),
            ],
        ),
        migrations.CreateModel(
            name="SigningKey",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=ids.uuid7,
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
                ("endorser", models.UUIDField()),
                ("endorsement", models.BinaryField(max_length=64)),
            ],
        ),
        migrations.CreateModel(
            name="SignInLink",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=ids.uuid7,
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
                        on_delete=models.CASCADE,
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
                ("from_name", ids.NameField(max_length=128)),
                ("to_name", ids.NameField(max_length=128)),
                ("type", ids.NameField(max_length=128)),
                ("role", models.CharField(max_length=9, null=True)),
                ("tokens", models.IntegerField()),
                ("bytes", models.IntegerField()),
                ("erased", models.BooleanField(default=False)),
                (
                    "thread",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.PROTECT,
                        related_name="slots",
                        to="memoryhub.thread",
                    ),
                ),
                ("at", models.DateTimeField()),
                (
                    "subject",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=models.PROTECT,
                        related_name="+",
                        to="memoryhub.subject",
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
                    models.Index(
                        condition=models.Q(("role", "user")),
                        fields=["subject", "-at", "-thread", "-index"],
                        name="episode_at",
                    ),
                    models.Index(
                        condition=models.Q(("role", "user")),
                        fields=["thread", "index"],
                        name="episode_begins",
                    ),
                ]
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
                        on_delete=models.PROTECT,
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
                ("name", ids.NameField(max_length=128)),
                ("value", ids.NameField(max_length=128)),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.PROTECT,
                        related_name="+",
                        to="memoryhub.project",
                    ),
                ),
                (
                    "thread",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.CASCADE,
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
                ]
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
                        on_delete=models.PROTECT,
                        related_name="turns",
                        to="memoryhub.thread",
                    ),
                ),
                ("counters", models.TextField(default="{}")),
            ],
        ),
        migrations.CreateModel(
            name="Lease",
            fields=[
                (
                    "name",
                    ids.NameField(max_length=40, primary_key=True, serialize=False),
                ),
                ("holder", models.UUIDField()),
                ("beaten_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Heartbeat",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True,
                        primary_key=True,
                        serialize=False,
                        verbose_name="ID",
                    ),
                ),
                ("process", models.UUIDField(unique=True)),
                ("beaten_at", models.DateTimeField()),
                ("ticks_ns", models.BigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="Page",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "thread_id",
                        "page_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "thread",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.PROTECT,
                        related_name="pages",
                        to="memoryhub.thread",
                    ),
                ),
                ("page_id", ids.NameField(max_length=128)),
                ("created_seq", models.BigIntegerField()),
                ("created_turn", models.BigIntegerField()),
                ("seq", models.BigIntegerField()),
                ("deleted_seq", models.BigIntegerField(null=True)),
                ("version", models.IntegerField()),
                ("type", models.CharField(max_length=10)),
                ("modality", models.CharField(max_length=10)),
                ("importance", models.FloatField()),
                ("role", models.CharField(max_length=9, null=True)),
                ("slot", models.BigIntegerField(null=True)),
                ("home", models.CharField(default="L2", max_length=2)),
                ("full_seq", models.BigIntegerField()),
                ("full_thread", models.UUIDField(null=True)),
                ("tokens", models.IntegerField()),
                ("cost", models.BigIntegerField()),
                ("hint_seq", models.BigIntegerField(null=True)),
                ("hint_thread", models.UUIDField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["thread", "seq"], name="page_seq"),
                    models.Index(fields=["thread", "type", "seq"], name="page_type"),
                ]
            },
        ),
        migrations.CreateModel(
            name="PageLevel",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "thread_id",
                        "page_id",
                        "version",
                        "level",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "thread",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.PROTECT,
                        related_name="page_levels",
                        to="memoryhub.thread",
                    ),
                ),
                ("page_id", ids.NameField(max_length=128)),
                ("version", models.IntegerField()),
                ("level", models.IntegerField()),
                ("seq", models.BigIntegerField()),
                ("source", models.UUIDField(null=True)),
                ("tokens", models.IntegerField()),
                ("cost", models.BigIntegerField()),
                ("producer", models.CharField(default="", max_length=64)),
                ("home", models.CharField(default="L2", max_length=2)),
            ],
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
                        on_delete=models.PROTECT,
                        related_name="+",
                        to="memoryhub.project",
                    ),
                ),
                (
                    "thread",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.PROTECT,
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
                ]
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
                ("key", ids.NameField(max_length=128)),
                ("version", models.BigIntegerField()),
                ("value_thread", models.UUIDField()),
                ("value_seq", models.BigIntegerField()),
                ("bytes", models.IntegerField()),
                ("expires_at", models.DateTimeField(null=True)),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.PROTECT,
                        related_name="+",
                        to="memoryhub.project",
                    ),
                ),
                (
                    "thread",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.PROTECT,
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
                ]
            },
        ),
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                ("seq", models.BigIntegerField(primary_key=True, serialize=False)),
                ("at", models.DateTimeField()),
                ("project", models.UUIDField(null=True)),
                ("actor_kind", models.CharField(max_length=8)),
                ("actor_ref", models.CharField(max_length=64)),
                ("action", models.CharField(max_length=40)),
                ("purpose", models.CharField(max_length=15, null=True)),
                ("target_kind", models.CharField(max_length=16, null=True)),
                ("target_id", models.CharField(max_length=64, null=True)),
                ("subject", models.BinaryField(max_length=8, null=True)),
                ("outcome", models.CharField(max_length=40)),
                ("count", models.BigIntegerField(default=0)),
                ("route", models.CharField(max_length=120, null=True)),
                ("first_seq", models.BigIntegerField(null=True)),
                ("last_seq", models.BigIntegerField(null=True)),
                ("request_id", models.CharField(max_length=36, null=True)),
                ("prev", models.BinaryField(max_length=32)),
                ("hash", models.BinaryField(max_length=32)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["project", "-seq"], name="audit_project"),
                    models.Index(
                        fields=["project", "action", "-seq"], name="audit_action"
                    ),
                    models.Index(
                        fields=["project", "actor_ref", "-seq"], name="audit_actor"
                    ),
                    models.Index(
                        fields=["project", "target_id", "-seq"], name="audit_target"
                    ),
                    models.Index(
                        condition=models.Q(("subject__isnull", False)),
                        fields=["subject", "-seq"],
                        name="audit_subject",
                    ),
                ]
            },
        ),
        migrations.CreateModel(
            name="DailyUse",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "subject_id",
                        "day",
                        "key_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("day", models.DateField()),
                ("reads", models.BigIntegerField(default=0)),
                ("writes", models.BigIntegerField(default=0)),
                (
                    "key",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.CASCADE,
                        related_name="+",
                        to="memoryhub.apikey",
                    ),
                ),
                (
                    "subject",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.CASCADE,
                        related_name="daily_uses",
                        to="memoryhub.subject",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="OperatorKey",
            fields=[
                ("kek_id", models.CharField(db_index=True, max_length=16)),
                ("wrapped", models.BinaryField(max_length=60)),
                ("operator", models.UUIDField(primary_key=True, serialize=False)),
                ("last_step", models.BigIntegerField(default=0)),
                ("wrong", models.IntegerField(default=0)),
                ("wrong_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField()),
            ],
            options={"abstract": False},
        ),
        migrations.CreateModel(
            name="Passkey",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=ids.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("operator", models.UUIDField(db_index=True)),
                ("credential", models.BinaryField(max_length=1023, unique=True)),
                ("public", models.BinaryField(max_length=1024)),
                ("host", models.CharField(max_length=253)),
                ("name", models.CharField(max_length=40)),
                ("signed", models.BigIntegerField()),
                ("created_at", models.DateTimeField()),
                ("used_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Identity",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=ids.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("issuer", ids.NameField(max_length=255)),
                ("subject", ids.NameField(max_length=255)),
                ("created_at", models.DateTimeField()),
                (
                    "operator",
                    models.ForeignKey(
                        on_delete=models.CASCADE,
                        related_name="identities",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("issuer", "subject"), name="one_identity"
                    )
                ]
            },
        ),
        migrations.CreateModel(
            name="Derivation",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "thread_id",
                        "source_seq",
                        "derived_thread",
                        "derived_seq",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("source_seq", models.BigIntegerField()),
                ("derived_thread", models.UUIDField()),
                ("derived_seq", models.BigIntegerField()),
                (
                    "thread",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.PROTECT,
                        related_name="derivations",
                        to="memoryhub.thread",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        fields=["derived_thread", "derived_seq"],
                        name="derivation_derived",
                    )
                ]
            },
        ),
        migrations.CreateModel(
            name="Erasure",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=ids.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "scope",
                    models.CharField(
                        choices=[
                            ("subject", "Subject"),
                            ("thread", "Thread"),
                            ("before", "Before"),
                            ("record", "Record"),
                        ],
                        max_length=7,
                    ),
                ),
                ("before", models.DateTimeField(null=True)),
                ("seq", models.BigIntegerField(null=True)),
                ("reason", models.CharField(max_length=17)),
                ("ticket", models.CharField(max_length=19, null=True)),
                ("actor", models.CharField(max_length=64)),
                ("restrict", models.BooleanField(default=False)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("planned", "Planned"),
                            ("held", "Held"),
                            ("fenced", "Fenced"),
                            ("tombstoned", "Tombstoned"),
                            ("key_destroyed", "Key Destroyed"),
                            ("rows_erased", "Rows Erased"),
                            ("caches_purged", "Caches Purged"),
                            ("scrubbed", "Scrubbed"),
                            ("verified", "Verified"),
                            ("complete", "Complete"),
                            ("expired", "Expired"),
                            ("cancelled", "Cancelled"),
                        ],
                        default="planned",
                        max_length=13,
                    ),
                ),
                ("waiting_on", models.CharField(default="", max_length=8)),
                ("epoch", models.IntegerField()),
                ("planned", models.TextField(default="{}")),
                ("targets", models.TextField(default="{}")),
                ("erased", models.TextField(default="{}")),
                ("times", models.TextField(default="{}")),
                ("verification", models.TextField(default="{}")),
                ("needles", models.BinaryField(default=bytes)),
                ("ledger_n", models.BigIntegerField(null=True)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("confirmed_at", models.DateTimeField(null=True)),
                ("updated_at", models.DateTimeField()),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.PROTECT,
                        related_name="erasures",
                        to="memoryhub.project",
                    ),
                ),
                (
                    "subject",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.PROTECT,
                        related_name="erasures",
                        to="memoryhub.subject",
                    ),
                ),
                (
                    "thread",
                    models.ForeignKey(
                        null=True,
                        on_delete=models.PROTECT,
                        related_name="+",
                        to="memoryhub.thread",
                    ),
                ),
                ("hit_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        fields=["project", "-created_at", "id"], name="erasure_list"
                    ),
                    models.Index(
                        fields=["subject", "-created_at"], name="erasure_subject"
                    ),
                    models.Index(
                        condition=models.Q(
                            ("state__in", ("complete", "expired", "cancelled")),
                            _negated=True,
                        ),
                        fields=["state", "updated_at"],
                        name="erasure_open",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(
                            ("state__in", ("complete", "expired", "cancelled")),
                            _negated=True,
                        ),
                        fields=("subject",),
                        name="one_open_erasure",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="RequestKey",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=ids.uuid7,
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
                        on_delete=models.PROTECT,
                        related_name="+",
                        to="memoryhub.project",
                    ),
                ),
                (
                    "thread",
                    models.ForeignKey(
                        null=True,
                        on_delete=models.CASCADE,
                        related_name="request_keys",
                        to="memoryhub.thread",
                    ),
                ),
                (
                    "erasure",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=models.CASCADE,
                        related_name="+",
                        to="memoryhub.erasure",
                    ),
                ),
                (
                    "subject",
                    models.ForeignKey(
                        on_delete=models.CASCADE,
                        related_name="request_keys",
                        to="memoryhub.subject",
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
            name="Hold",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=ids.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "basis",
                    models.CharField(
                        choices=[
                            ("expression", "Expression"),
                            ("legal_duty", "Legal Duty"),
                            ("public_health", "Public Health"),
                            ("archiving", "Archiving"),
                            ("legal_claims", "Legal Claims"),
                        ],
                        max_length=13,
                    ),
                ),
                ("opened_by", models.CharField(max_length=64)),
                ("opened_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("lifted_at", models.DateTimeField(null=True)),
                ("lifted_by", models.CharField(default="", max_length=64)),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.PROTECT,
                        related_name="holds",
                        to="memoryhub.project",
                    ),
                ),
                (
                    "reviewer",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=models.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "subject",
                    models.ForeignKey(
                        on_delete=models.PROTECT,
                        related_name="holds",
                        to="memoryhub.subject",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        fields=["project", "-opened_at", "id"], name="hold_list"
                    )
                ]
            },
        ),
        migrations.CreateModel(
            name="Receipt",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=ids.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("n", models.PositiveSmallIntegerField(default=0)),
                ("text", models.TextField()),
                ("issued_at", models.DateTimeField()),
                (
                    "erasure",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.PROTECT,
                        related_name="receipts",
                        to="memoryhub.erasure",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.PROTECT,
                        related_name="receipts",
                        to="memoryhub.project",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        fields=["project", "-issued_at", "id"], name="receipt_list"
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("erasure", "n"), name="receipt_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Tombstone",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=ids.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("subject", "Subject"),
                            ("thread", "Thread"),
                            ("value", "Value"),
                        ],
                        max_length=7,
                    ),
                ),
                ("digest", models.BinaryField(max_length=32)),
                ("of", models.CharField(default="", max_length=10)),
                ("created_at", models.DateTimeField()),
                (
                    "erasure",
                    models.ForeignKey(
                        on_delete=models.PROTECT,
                        related_name="tombstones",
                        to="memoryhub.erasure",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.PROTECT,
                        related_name="tombstones",
                        to="memoryhub.project",
                    ),
                ),
                (
                    "subject",
                    models.ForeignKey(
                        on_delete=models.PROTECT,
                        related_name="tombstone_rows",
                        to="memoryhub.subject",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("project", "kind", "digest"), name="tombstone_once"
                    )
                ]
            },
        ),
        migrations.CreateModel(
            name="DestroyedProjectKey",
            fields=[
                ("project", models.UUIDField(primary_key=True, serialize=False)),
                ("at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Total",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "subject_id",
                        "kind",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("kind", models.CharField(max_length=40)),
                ("records", models.BigIntegerField(default=0)),
                ("sealed", models.BigIntegerField(default=0)),
                ("erased", models.BigIntegerField(default=0)),
                ("bytes", models.BigIntegerField(default=0)),
                (
                    "subject",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.CASCADE,
                        related_name="totals",
                        to="memoryhub.subject",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="SignInFailure",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=ids.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("at", models.DateTimeField()),
                ("name", models.BinaryField(max_length=32)),
                ("address", models.BinaryField(max_length=32)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["name", "at"], name="failures_of_name"),
                    models.Index(fields=["address", "at"], name="failures_of_address"),
                ]
            },
        ),
        migrations.CreateModel(
            name="NewestLine",
            fields=[
                ("kek_id", models.CharField(db_index=True, max_length=16)),
                ("wrapped", models.BinaryField(max_length=60)),
                (
                    "file",
                    models.CharField(max_length=20, primary_key=True, serialize=False),
                ),
                ("n", models.BigIntegerField()),
            ],
            options={"abstract": False},
        ),
        migrations.CreateModel(
            name="Checkpoint",
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
                (
                    "name",
                    ids.NameField(max_length=128, null=True),
                ),
                ("at", models.DateTimeField()),
                ("by", models.CharField(max_length=64)),
                ("auto", models.BooleanField()),
                ("parent", models.BigIntegerField(null=True)),
                ("counts", models.TextField()),
                ("touched", models.IntegerField(null=True)),
                ("event_thread", models.UUIDField()),
                ("event_seq", models.BigIntegerField()),
                (
                    "thread",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.PROTECT,
                        related_name="checkpoints",
                        to="memoryhub.thread",
                    ),
                ),
            ],
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
                ("events", models.BigIntegerField(default=0)),
                ("turns", models.BigIntegerField(default=0)),
                ("tokens", models.BigIntegerField(default=0)),
                ("prefix_tokens", models.BigIntegerField(default=0)),
                ("exchanges", models.BigIntegerField(default=0)),
                ("faulted_exchanges", models.BigIntegerField(default=0)),
                ("faults", models.BigIntegerField(default=0)),
                ("refaults", models.BigIntegerField(default=0)),
                ("within_1", models.BigIntegerField(default=0)),
                ("within_2", models.BigIntegerField(default=0)),
                ("within_5", models.BigIntegerField(default=0)),
                ("within_10", models.BigIntegerField(default=0)),
                ("within_20", models.BigIntegerField(default=0)),
                ("within_50", models.BigIntegerField(default=0)),
                ("within_100", models.BigIntegerField(default=0)),
                ("within_200", models.BigIntegerField(default=0)),
                ("within_500", models.BigIntegerField(default=0)),
                ("within_1000", models.BigIntegerField(default=0)),
                ("slower", models.BigIntegerField(default=0)),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.CASCADE,
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
                        default=ids.uuid7,
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
                        on_delete=models.CASCADE,
                        related_name="+",
                        to="memoryhub.project",
                    ),
                ),
                (
                    "thread",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=models.CASCADE,
                        related_name="+",
                        to="memoryhub.thread",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("thread__isnull", False)),
                        fields=["project", "-at"],
                        name="refusals_listed",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("thread__isnull", True)),
                        fields=("project", "minutes", "at", "code"),
                        name="refusals_of_project",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("thread__isnull", False)),
                        fields=("thread", "at", "code"),
                        name="refusals_of_thread",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ThreadTerms",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "thread_id",
                        "upto_seq",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("first_seq", models.BigIntegerField()),
                ("upto_seq", models.BigIntegerField()),
                ("sealed", models.BinaryField()),
                (
                    "thread",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.PROTECT,
                        related_name="terms",
                        to="memoryhub.thread",
                    ),
                ),
            ],
            options={"verbose_name_plural": "thread terms"},
        ),
        migrations.CreateModel(
            name="Assertion",
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
                ("origin", models.CharField(max_length=16)),
                ("retracted_seq", models.BigIntegerField(null=True)),
                ("wrong", models.BooleanField()),
                ("cardinality", models.CharField(max_length=8, null=True)),
                ("timeline", models.BinaryField(max_length=16)),
                ("entity", models.BinaryField(max_length=16)),
                ("predicate", models.BinaryField(max_length=16)),
                ("value", models.BinaryField(max_length=16)),
                ("many", models.BooleanField()),
                ("confidence", models.FloatField(null=True)),
                ("valid_from", models.DateTimeField(null=True)),
                ("valid_until", models.DateTimeField(null=True)),
                (
                    "thread",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.PROTECT,
                        related_name="assertions",
                        to="memoryhub.thread",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        fields=["thread", "timeline", "seq"], name="assertion_timeline"
                    )
                ]
            },
        ),
    ]
