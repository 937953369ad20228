"""Models of erasure: requests and their progress, tombstones, holds, receipts."""

from __future__ import annotations

from django.db import models

from memoryhub.models.access.operators import Operator
from memoryhub.models.privacy import Fate, Privacy, parse_fields
from memoryhub.models.projects import Project
from memoryhub.models.server.ids import uuid7
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread


class Erasure(models.Model):
    """One request to forget, from its plan to its receipt."""

    class Scope(models.TextChoices):
        SUBJECT = "subject"
        THREAD = "thread"
        BEFORE = "before"
        RECORD = "record"

    class State(models.TextChoices):
        """States in order; an erasure enters a state once the state is true."""

        PLANNED = "planned"
        HELD = "held"
        FENCED = "fenced"
        TOMBSTONED = "tombstoned"
        KEY_DESTROYED = "key_destroyed"
        ROWS_ERASED = "rows_erased"
        CACHES_PURGED = "caches_purged"
        SCRUBBED = "scrubbed"
        VERIFIED = "verified"
        COMPLETE = "complete"
        EXPIRED = "expired"
        CANCELLED = "cancelled"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(
        Project, models.PROTECT, related_name="erasures", db_index=False
    )
    subject = models.ForeignKey(
        Subject, models.PROTECT, related_name="erasures", db_index=False
    )
    scope = models.CharField(max_length=7, choices=Scope.choices)
    #: Thread to erase; only for the scopes `thread` and `record`.
    thread = models.ForeignKey(Thread, models.PROTECT, null=True, related_name="+")
    before = models.DateTimeField(null=True)
    seq = models.BigIntegerField(null=True)
    reason = models.CharField(max_length=17)
    ticket = models.CharField(max_length=19, null=True)
    #: `agent:<key prefix>`, `operator:<id>`, `worker:retention`, `command`.
    actor = models.CharField(max_length=64)
    #: The subject is restricted until the plan is confirmed or expires.
    restrict = models.BooleanField(default=False)
    state = models.CharField(
        max_length=13, choices=State.choices, default=State.PLANNED
    )
    #: Reason why the next state waits: reader, vacuum, rights, disk, store, night,
    #: needles, hold; broken, if a step failed by a defect of the server.
    waiting_on = models.CharField(max_length=8, default="")
    #: Class of the error if broken, never its text.
    defect = models.CharField(max_length=64, default="")
    #: The subject's epoch when the plan was made; the fence raises that epoch by one.
    epoch = models.IntegerField()
    #: JSON: numbers of erased, derived and kept records by place, and reasons.
    planned = models.TextField(default="{}")
    #: JSON: heads [[thread, seq]], and ranges [[thread, first, last]] unless all goes.
    targets = models.TextField(default="{}")
    #: JSON: by place, numbers of fenced and of erased records, and the way of erasure.
    erased = models.TextField(default="{}")
    #: JSON: instant at which each state was entered.
    times = models.TextField(default="{}")
    #: JSON: findings of scan and sweep.
    verification = models.TextField(default="{}")
    #: Nonces of sealed payloads and wrapped keys, 12 bytes each, as targets of a scan.
    #: Random, hence no content. The night after the receipt deletes the nonces.
    needles = models.BinaryField(default=bytes)
    #: Instant at which a scan first found unencrypted remains. From then on the erasure
    #: waits for a new scan for the same targets.
    hit_at = models.DateTimeField(null=True)
    #: Number of the ledger's intent line.
    ledger_n = models.BigIntegerField(null=True)
    created_at = models.DateTimeField()
    #: Instant until which the plan may be confirmed.
    expires_at = models.DateTimeField()
    confirmed_at = models.DateTimeField(null=True)
    updated_at = models.DateTimeField()

    privacy = Privacy(
        subject="subject",
        forget=Fate.STAYS,
        holds=parse_fields(
            id="id project subject thread ticket",
            id_word="actor",
            word="scope reason restrict state waiting_on defect",
            time="before hit_at created_at expires_at confirmed_at updated_at",
            number="seq epoch ledger_n",
            number_word="planned erased verification",
            id_number="targets",
            time_word="times",
            digest="needles",
        ),
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="one_open_erasure",
                fields=["subject"],
                condition=~models.Q(state__in=("complete", "expired", "cancelled")),
            ),
        ]
        indexes = [
            # List of a project, newest first, and open erasures for the worker.
            models.Index(fields=["project", "-created_at", "id"], name="erasure_list"),
            models.Index(fields=["subject", "-created_at"], name="erasure_subject"),
            models.Index(
                fields=["state", "updated_at"],
                name="erasure_open",
                condition=~models.Q(state__in=("complete", "expired", "cancelled")),
            ),
        ]

    def __str__(self) -> str:
        return str(self.id)


class Tombstone(models.Model):
    """A keyed digest of an erased value, thread name or subject that may not return."""

    class Kind(models.TextChoices):
        SUBJECT = "subject"
        THREAD = "thread"
        VALUE = "value"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(
        Project, models.PROTECT, related_name="tombstones", db_index=False
    )
    #: Subject of the blocked value; for the kind `subject` the erased subject.
    subject = models.ForeignKey(Subject, models.PROTECT, related_name="tombstone_rows")
    kind = models.CharField(max_length=7, choices=Kind.choices)
    #: Digest of the subject's ref, the thread's name or the value; see the blind index.
    digest = models.BinaryField(max_length=32)
    #: Noun of the erased value's event, such as `page`, `key`, `checkpoint`.
    of = models.CharField(max_length=10, default="")
    erasure = models.ForeignKey(Erasure, models.PROTECT, related_name="tombstones")
    created_at = models.DateTimeField()

    privacy = Privacy(
        subject="subject",
        forget=Fate.STAYS,
        holds=parse_fields(
            id="id project subject erasure",
            word="kind of",
            digest="digest",
            time="created_at",
        ),
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="tombstone_once", fields=["project", "kind", "digest"]
            ),
        ]

    def __str__(self) -> str:
        return str(self.id)


class Hold(models.Model):
    """A legal hold: while in force, nothing of the subject is erased."""

    class Basis(models.TextChoices):
        EXPRESSION = "expression"
        LEGAL_DUTY = "legal_duty"
        PUBLIC_HEALTH = "public_health"
        ARCHIVING = "archiving"
        LEGAL_CLAIMS = "legal_claims"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(
        Project, models.PROTECT, related_name="holds", db_index=False
    )
    subject = models.ForeignKey(Subject, models.PROTECT, related_name="holds")
    basis = models.CharField(max_length=13, choices=Basis.choices)
    #: `operator:<id>` or `command`.
    opened_by = models.CharField(max_length=64)
    #: Operator who reviews the hold before its expiry.
    reviewer = models.ForeignKey(
        Operator, models.SET_NULL, null=True, related_name="+", db_index=False
    )
    opened_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    lifted_at = models.DateTimeField(null=True)
    lifted_by = models.CharField(max_length=64, default="")

    privacy = Privacy(
        subject="subject",
        exported="manifest.json",
        forget=Fate.STAYS,
        holds=parse_fields(
            id="id project subject reviewer",
            id_word="opened_by lifted_by",
            word="basis",
            time="opened_at expires_at lifted_at",
        ),
    )

    class Meta:
        indexes = [
            models.Index(fields=["project", "-opened_at", "id"], name="hold_list"),
        ]

    def __str__(self) -> str:
        return str(self.id)


class Receipt(models.Model):
    """A signed statement about an erasure. Triggers forbid changes of rows."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(
        Project, models.PROTECT, related_name="receipts", db_index=False
    )
    erasure = models.ForeignKey(
        Erasure, models.PROTECT, related_name="receipts", db_index=False
    )
    #: 0 is the receipt; higher numbers are addenda.
    n = models.PositiveSmallIntegerField(default=0)
    #: Canonical JSON with its signature: ids, counts, words and keyed digests.
    text = models.TextField()
    issued_at = models.DateTimeField()

    privacy = Privacy(
        subject="erasure__subject",
        forget=Fate.STAYS,
        holds=parse_fields(
            id="id project erasure",
            number="n",
            digest_id_number_time_word="text",
            time="issued_at",
        ),
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(name="receipt_once", fields=["erasure", "n"]),
        ]
        indexes = [
            models.Index(fields=["project", "-issued_at", "id"], name="receipt_list"),
        ]

    def __str__(self) -> str:
        return str(self.id)
