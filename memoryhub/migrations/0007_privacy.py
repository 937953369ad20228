"""Privacy: erasures and what proves them, the audit log, what was made of what.

Triggers keep audit entries and receipts: they are inserted, and nothing else. Those on
events are taken off while SQLite makes the threads' table anew, which they name.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import memoryhub.models.server.ids

# Modules whose names begin with a digit can't be named in an import.
triggers = import_module("memoryhub.migrations.0002_append_only")
pages = import_module("memoryhub.migrations.0005_pages")

KEPT = ("auditentry", "receipt")
#: By which each row is known. SQLite's REPLACE removes the old row of any of them
#: without a delete trigger.
KEYS = {
    "auditentry": ("seq", "rowid"),
    "receipt": ("id", "erasure_id, n", "rowid"),
}
_KEEP = """CREATE FUNCTION memoryhub_keep() RETURNS trigger AS $$
    BEGIN
      RAISE EXCEPTION 'it is kept as it was written';
    END $$ LANGUAGE plpgsql"""


def guard(apps: Any, schema_editor: Any) -> None:
    for statement in _guards(postgres=_postgres(schema_editor)):
        schema_editor.execute(statement)


def unguard(apps: Any, schema_editor: Any) -> None:
    postgres = _postgres(schema_editor)
    for table in KEPT:
        for verb in _verbs(postgres=postgres):
            on = f" ON memoryhub_{table}" if postgres else ""
            schema_editor.execute(f"DROP TRIGGER memoryhub_{table}_{verb}{on}")
    if postgres:
        schema_editor.execute("DROP FUNCTION memoryhub_keep()")


def _guards(*, postgres: bool) -> Iterator[str]:
    if postgres:
        yield _KEEP
    for table in KEPT:
        for verb in _verbs(postgres=postgres):
            name = f"memoryhub_{table}"
            each = "STATEMENT" if verb == "truncate" else "ROW"
            start = f"CREATE TRIGGER {name}_{verb} BEFORE {verb.upper()} ON {name}"
            if postgres:
                yield f"{start} FOR EACH {each} EXECUTE FUNCTION memoryhub_keep()"
            else:
                words = "'it is kept as it was written'"
                when = f"WHEN {_taken(table)}" if verb == "insert" else ""
                yield f"{start} {when} BEGIN SELECT RAISE(ABORT, {words}); END"


def _taken(table: str) -> str:
    """Whether there is a row with one of the new one's keys."""
    found = []
    for key in KEYS[table]:
        same = " AND ".join(f"{name} = NEW.{name}" for name in key.split(", "))
        found.append(f"EXISTS (SELECT 1 FROM memoryhub_{table} WHERE {same})")  # noqa: S608 # our own
    return " OR ".join(found)


def _verbs(*, postgres: bool) -> tuple[str, ...]:
    return ("update", "delete", "truncate" if postgres else "insert")


def _postgres(schema_editor: Any) -> bool:
    return bool(schema_editor.connection.vendor == "postgresql")


class Migration(migrations.Migration):
    dependencies = [
        ("memoryhub", "0006_working_memory"),
    ]

    operations = [
        migrations.RunPython(
            triggers.drop, pages.guard, hints={"home": "default"}, elidable=False
        ),
        migrations.AddField(
            model_name="instance",
            name="audit_hash",
            field=models.BinaryField(default=bytes, max_length=32),
        ),
        migrations.AddField(
            model_name="instance",
            name="audit_seq",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="instance",
            name="ledger_hash",
            field=models.BinaryField(default=bytes, max_length=32),
        ),
        migrations.AddField(
            model_name="instance",
            name="ledger_n",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="subject",
            name="basis",
            field=models.CharField(default="", max_length=20),
        ),
        migrations.AddField(
            model_name="subject",
            name="tombstones",
            field=models.IntegerField(default=0),
        ),
        migrations.AddField(
            model_name="thread",
            name="anchored_hash",
            field=models.BinaryField(default=bytes, max_length=32),
        ),
        migrations.AddField(
            model_name="thread",
            name="anchored_seq",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="thread",
            name="blanked_seq",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="thread",
            name="origin",
            field=models.TextField(default=""),
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
                        fields=["subject", "-seq"],
                        name="audit_subject",
                        condition=models.Q(subject__isnull=False),
                    ),
                ],
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
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="memoryhub.apikey",
                    ),
                ),
                (
                    "subject",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
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
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="Passkey",
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
                        default=memoryhub.models.server.ids.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("issuer", memoryhub.models.server.ids.NameField(max_length=255)),
                ("subject", memoryhub.models.server.ids.NameField(max_length=255)),
                ("created_at", models.DateTimeField()),
                (
                    "operator",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
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
                ],
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
                        on_delete=django.db.models.deletion.PROTECT,
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
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Erasure",
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
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="erasures",
                        to="memoryhub.project",
                    ),
                ),
                (
                    "subject",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="erasures",
                        to="memoryhub.subject",
                    ),
                ),
                (
                    "thread",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="memoryhub.thread",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Hold",
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
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="holds",
                        to="memoryhub.project",
                    ),
                ),
                (
                    "reviewer",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "subject",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="holds",
                        to="memoryhub.subject",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Receipt",
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
                ("n", models.PositiveSmallIntegerField(default=0)),
                ("text", models.TextField()),
                ("issued_at", models.DateTimeField()),
                (
                    "erasure",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="receipts",
                        to="memoryhub.erasure",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="receipts",
                        to="memoryhub.project",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Tombstone",
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
                        choices=[
                            ("subject", "Subject"),
                            ("thread", "Thread"),
                            ("value", "Value"),
                        ],
                        max_length=7,
                    ),
                ),
                ("digest", models.BinaryField(max_length=32)),
                ("of", models.CharField(default="", max_length=8)),
                ("created_at", models.DateTimeField()),
                (
                    "erasure",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="tombstones",
                        to="memoryhub.erasure",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="tombstones",
                        to="memoryhub.project",
                    ),
                ),
                (
                    "subject",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="tombstone_rows",
                        to="memoryhub.subject",
                    ),
                ),
            ],
        ),
        migrations.AddIndex(
            model_name="erasure",
            index=models.Index(
                fields=["project", "-created_at", "id"], name="erasure_list"
            ),
        ),
        migrations.AddIndex(
            model_name="erasure",
            index=models.Index(
                fields=["subject", "-created_at"], name="erasure_subject"
            ),
        ),
        migrations.AddIndex(
            model_name="erasure",
            index=models.Index(
                condition=models.Q(
                    ("state__in", ("complete", "expired", "cancelled")), _negated=True
                ),
                fields=["state", "updated_at"],
                name="erasure_open",
            ),
        ),
        migrations.AddConstraint(
            model_name="erasure",
            constraint=models.UniqueConstraint(
                condition=models.Q(
                    ("state__in", ("complete", "expired", "cancelled")), _negated=True
                ),
                fields=("subject",),
                name="one_open_erasure",
            ),
        ),
        migrations.AddIndex(
            model_name="hold",
            index=models.Index(
                fields=["project", "-opened_at", "id"], name="hold_list"
            ),
        ),
        migrations.AddIndex(
            model_name="receipt",
            index=models.Index(
                fields=["project", "-issued_at", "id"], name="receipt_list"
            ),
        ),
        migrations.AddConstraint(
            model_name="receipt",
            constraint=models.UniqueConstraint(
                fields=("erasure", "n"), name="receipt_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="tombstone",
            constraint=models.UniqueConstraint(
                fields=("project", "kind", "digest"), name="tombstone_once"
            ),
        ),
        migrations.RunPython(
            pages.guard, triggers.drop, hints={"home": "default"}, elidable=False
        ),
        migrations.RunPython(guard, unguard, hints={"home": "default"}, elidable=False),
    ]
