from __future__ import annotations

from django.db import models

from memoryhub.models.privacy import Privacy, fields
from memoryhub.models.server.ids import NameField, uuid7

#: What a project may be called, in addresses and by people.
MAX_SLUG = 40
SLUG_PATTERN = f"[a-z0-9-]{{1,{MAX_SLUG}}}"
MAX_THREADS = 100_000
#: The largest value `max_threads` may be set to.
MOST_THREADS = 10_000_000
#: A day.
EXPIRED_VALUE_GRACE_SECONDS = 86_400
#: The most that a key's time to live, or the grace of its value, may be set to.
MOST_TTL_SECONDS = 31_536_000
#: The most that `retention_idle_days` may be set to.
MOST_IDLE_DAYS = 36_500
#: Of `observer_instructions`, in UTF-8.
MOST_INSTRUCTION_BYTES = 8_192


class Project(models.Model):
    """A tenant: owns keys, threads and subjects."""

    class State(models.TextChoices):
        ACTIVE = "active"
        #: Nothing begins in it any more; its people are being erased, one by one.
        DELETING = "deleting"
        #: All of them are erased, and its key is destroyed.
        DELETED = "deleted"

    class Consolidate(models.TextChoices):
        #: Agents and operators assert what is to be remembered.
        MANUAL = "manual"
        AUTO = "auto"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    slug = NameField(max_length=MAX_SLUG, unique=True)
    created_at = models.DateTimeField()
    create_on_write = models.BooleanField(default=True)
    max_threads = models.IntegerField(default=MAX_THREADS)
    #: Threads that count against `max_threads`; moves in the creating transaction.
    thread_count = models.IntegerField(default=0)
    #: A thread that idles for so long is retired; None keeps it for ever.
    retention_idle_days = models.IntegerField(null=True)
    #: Of keys whose agent and thread say nothing; None: they never expire.
    default_ttl_seconds = models.IntegerField(null=True)
    #: How long after its latest expiry a value stays in history; None: for good.
    expired_value_grace_seconds = models.IntegerField(
        null=True, default=EXPIRED_VALUE_GRACE_SECONDS
    )
    #: Whether the language model is asked for facts of exchanges that are over.
    consolidate = models.CharField(
        max_length=6, choices=Consolidate.choices, default=Consolidate.MANUAL
    )
    #: It is asked of what was said from then on; None: of all.
    consolidate_since = models.DateTimeField(null=True)
    #: Appended to what the model is asked of threads that are observed.
    observer_instructions = models.TextField(default="")
    state = models.CharField(max_length=8, choices=State.choices, default=State.ACTIVE)
    #: Why it is deleted, as its erasures say; empty while it is not.
    deletion_reason = models.CharField(max_length=17, default="")
    deletion_ticket = models.CharField(max_length=19, null=True)
    #: `operator:<id>` or `command`.
    deletion_actor = models.CharField(max_length=64, default="")
    deletion_at = models.DateTimeField(null=True)
    deleted_at = models.DateTimeField(null=True)

    privacy = Privacy(
        holds=fields(
            id="id deletion_ticket",
            id_word="deletion_actor",
            # It outlives what the project held, so that this can be proved.
            title="slug",
            staff="observer_instructions",
            word="create_on_write consolidate state deletion_reason",
            number="max_threads thread_count retention_idle_days"
            " default_ttl_seconds expired_value_grace_seconds",
            time="created_at consolidate_since deletion_at deleted_at",
        ),
    )

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="project_max_threads", condition=models.Q(max_threads__gte=1)
            ),
        ]

    def __str__(self) -> str:
        return str(self.id)


class ProjectStats(models.Model):
    """Sums over a project's threads, taken by the reconcile loop every 10 s."""

    project = models.OneToOneField(
        Project, models.CASCADE, primary_key=True, related_name="stats"
    )
    taken_at = models.DateTimeField()
    open_threads = models.IntegerField(default=0)
    closed_threads = models.IntegerField(default=0)
    retired_threads = models.IntegerField(default=0)
    erased_threads = models.IntegerField(default=0)
    nearly_full_threads = models.IntegerField(default=0)
    #: Open threads, used lately, that are over a threshold; JSON of the worst of them
    #: and of how many each flag is said: {"counts": {flag: n}, "threads":
    #: [{"thread", "flags": {flag: [since, turn]}}, …]}.
    unhealthy_threads = models.IntegerField(default=0)
    unhealthy = models.TextField(default="[]")
    slots = models.BigIntegerField(default=0)
    tokens = models.BigIntegerField(default=0)
    bytes = models.BigIntegerField(default=0)

    privacy = Privacy(
        holds=fields(
            id="project",
            time="taken_at",
            number="open_threads closed_threads retired_threads erased_threads"
            " nearly_full_threads unhealthy_threads slots tokens bytes",
            id_word_number_time="unhealthy",
        ),
    )

    def __str__(self) -> str:
        return str(self.project_id)


class Instance(models.Model):
    """This database's identity, compared with that of the keys database.

    Also where its chains stand: whoever appends to one locks this row.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    created_at = models.DateTimeField()
    #: The last line of the erasure ledger that was applied here, and its hash.
    ledger_n = models.BigIntegerField(default=0)
    ledger_hash = models.BinaryField(max_length=32, default=bytes)
    #: The newest entry of the audit log, and its hash.
    audit_seq = models.BigIntegerField(default=0)
    audit_hash = models.BinaryField(max_length=32, default=bytes)

    privacy = Privacy(
        holds=fields(
            id="id",
            time="created_at",
            number="ledger_n audit_seq",
            digest="ledger_hash audit_hash",
        ),
    )

    def __str__(self) -> str:
        return str(self.id)
