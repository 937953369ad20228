from __future__ import annotations

from django.db import models

from memoryhub.models.privacy import Privacy, parse_fields
from memoryhub.models.server.ids import NameField, uuid7

#: Most characters, and pattern, of a project's name in addresses.
MAX_SLUG = 40
SLUG_PATTERN = f"[a-z0-9-]{{1,{MAX_SLUG}}}"
MAX_THREADS = 100_000
#: The largest value `max_threads` may be set to.
MOST_THREADS = 10_000_000
#: One day.
EXPIRED_VALUE_GRACE_SECONDS = 86_400
#: Largest time to live of a key, and largest grace of its value.
MOST_TTL_SECONDS = 31_536_000
#: Largest value of `retention_idle_days`.
MOST_IDLE_DAYS = 36_500
#: Most bytes of instructions to observer or reflector, in UTF-8.
MOST_INSTRUCTION_BYTES = 8_192
#: Most models with a price, and most characters of a model's name and of a currency's.
MOST_PRICES = 20
MOST_MODEL_CHARS, MOST_CURRENCY_CHARS = 80, 8


class Project(models.Model):
    """A tenant: owns keys, threads and subjects."""

    class State(models.TextChoices):
        ACTIVE = "active"
        #: Nothing begins in the project any more; its subjects are erased one by one.
        DELETING = "deleting"
        #: All subjects are erased, and the project's key is destroyed.
        DELETED = "deleted"

    class Consolidate(models.TextChoices):
        #: Only agents and operators assert facts.
        MANUAL = "manual"
        AUTO = "auto"

    class AlertTone(models.TextChoices):
        BAD = "bad", "red"
        ATTENTION = "attn", "amber or red"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    slug = NameField(max_length=MAX_SLUG, unique=True)
    created_at = models.DateTimeField()
    create_on_write = models.BooleanField(default=True)
    max_threads = models.IntegerField(default=MAX_THREADS)
    #: Threads that count against `max_threads`; moves in the creating transaction.
    thread_count = models.IntegerField(default=0)
    #: Whether webhooks wait for events; read by every write's fence.
    has_webhooks = models.BooleanField(default=False)
    #: Idle days after which a thread is retired; None keeps threads for ever.
    retention_idle_days = models.IntegerField(null=True)
    #: Time to live of keys if agent and thread set none; None: keys never expire.
    default_ttl_seconds = models.IntegerField(null=True)
    #: Time that a value stays in history after its latest expiry; None: for good.
    expired_value_grace_seconds = models.IntegerField(
        null=True, default=EXPIRED_VALUE_GRACE_SECONDS
    )
    #: Whether the language model is asked for facts of ended exchanges.
    consolidate = models.CharField(
        max_length=6, choices=Consolidate.choices, default=Consolidate.MANUAL
    )
    #: Instant since which exchanges are consolidated; None: all exchanges.
    consolidate_since = models.DateTimeField(null=True)
    #: Instructions appended to the observer's prompt, and to the reflector's.
    observer_instructions = models.TextField(default="")
    reflector_instructions = models.TextField(default="")
    #: JSON of the owner's prices: {"currency": "EUR", "models": [[name, {…}], …]}, the
    #: default model first; empty: the server's prices hold.
    prices = models.TextField(default="")
    #: Thresholds that an owner set, for checks of the project; None: the default.
    #: See queries/overview/thresholds.
    most_refaults = models.IntegerField(null=True)
    least_resident_percent = models.IntegerField(null=True)
    most_refused_fetches = models.IntegerField(null=True)
    least_hit_percent = models.IntegerField(null=True)
    most_refusals = models.IntegerField(null=True)
    most_model_failures = models.IntegerField(null=True)
    #: Lowest tone of alerts that receivers are told of, and where mail goes to.
    alert_tone = models.CharField(
        max_length=4, choices=AlertTone.choices, default=AlertTone.BAD
    )
    alert_mail = models.EmailField(default="")
    state = models.CharField(max_length=8, choices=State.choices, default=State.ACTIVE)
    #: Reason of the deletion, as in its erasures; empty without a deletion.
    deletion_reason = models.CharField(max_length=17, default="")
    deletion_ticket = models.CharField(max_length=19, null=True)
    #: `operator:<id>` or `command`.
    deletion_actor = models.CharField(max_length=64, default="")
    deletion_at = models.DateTimeField(null=True)
    deleted_at = models.DateTimeField(null=True)

    privacy = Privacy(
        holds=parse_fields(
            id="id deletion_ticket",
            id_word="deletion_actor",
            # The slug outlives the project's data, as proof of the erasures.
            title="slug",
            staff="observer_instructions reflector_instructions prices alert_mail",
            word="create_on_write has_webhooks consolidate state deletion_reason"
            " alert_tone",
            number="max_threads thread_count retention_idle_days"
            " default_ttl_seconds expired_value_grace_seconds"
            " most_refaults least_resident_percent most_refused_fetches"
            " least_hit_percent most_refusals most_model_failures",
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
    """Sums over a project's threads, computed by the reconcile loop every 10 s."""

    project = models.OneToOneField(
        Project, models.CASCADE, primary_key=True, related_name="stats"
    )
    taken_at = models.DateTimeField()
    open_threads = models.IntegerField(default=0)
    closed_threads = models.IntegerField(default=0)
    retired_threads = models.IntegerField(default=0)
    erased_threads = models.IntegerField(default=0)
    nearly_full_threads = models.IntegerField(default=0)
    #: Number of open, recently used threads over a threshold; JSON of the worst of
    #: these threads, and of the number of threads with each flag: {"counts": {flag: n},
    #: "threads": [{"thread", "flags": {flag: [since, turn]}}, …]}.
    unhealthy_threads = models.IntegerField(default=0)
    unhealthy = models.TextField(default="[]")
    slots = models.BigIntegerField(default=0)
    tokens = models.BigIntegerField(default=0)
    bytes = models.BigIntegerField(default=0)

    privacy = Privacy(
        holds=parse_fields(
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
    """Identity of this database, compared with that of the keys database.

    Also holds the heads of the chains: an append to a chain locks this row.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    created_at = models.DateTimeField()
    #: Number and hash of the last ledger line that was applied here.
    ledger_n = models.BigIntegerField(default=0)
    ledger_hash = models.BinaryField(max_length=32, default=bytes)
    #: Seq and hash of the newest entry of the audit log.
    audit_seq = models.BigIntegerField(default=0)
    audit_hash = models.BinaryField(max_length=32, default=bytes)

    privacy = Privacy(
        holds=parse_fields(
            id="id",
            time="created_at",
            number="ledger_n audit_seq",
            digest="ledger_hash audit_hash",
        ),
    )

    def __str__(self) -> str:
        return str(self.id)
