"""The tables of the `keys` database: wrapped keys, and checks of their KEKs.

The router sends these models, and no others, to the alias `keys`.
"""

from __future__ import annotations

from django.db import models

from memoryhub.models.privacy import Fate, Privacy, parse_fields
from memoryhub.models.server.ids import uuid7

#: The version travels in one byte of every sealed payload.
MAX_VERSION = 255


class WrappedKey(models.Model):
    """Base of the tables of keys wrapped under one of the ring's KEKs."""

    #: Indexed for the rotation, which looks for keys under other KEKs.
    kek_id = models.CharField(max_length=16, db_index=True)
    wrapped = models.BinaryField(max_length=60)

    class Meta:
        abstract = True


class ProjectKey(WrappedKey):
    """A project's key, wrapped; lives as long as the project."""

    project = models.UUIDField(primary_key=True)

    privacy = Privacy(holds=parse_fields(id="project kek_id", sealed="wrapped"))

    def __str__(self) -> str:
        return str(self.project)


class SubjectKey(WrappedKey):
    """One version of a subject's data key, wrapped. Old versions stay for reading."""

    pk = models.CompositePrimaryKey("subject", "version")
    subject = models.UUIDField()
    version = models.PositiveSmallIntegerField()
    project = models.UUIDField()
    #: Payloads sealed under this version, estimated (vault/seal_count.py).
    seals = models.BigIntegerField(default=0)
    created_at = models.DateTimeField()

    privacy = Privacy(
        subject="subject",
        forget=Fate.DESTROYED,
        holds=parse_fields(
            id="subject kek_id project",
            number="version seals",
            sealed="wrapped",
            time="created_at",
        ),
    )

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="subject_key_version",
                condition=models.Q(version__gte=1, version__lte=MAX_VERSION),
            ),
        ]
        indexes = [
            # Sweep of keys without a subject.
            models.Index(fields=["created_at"], name="subject_key_age"),
        ]

    def __str__(self) -> str:
        return f"{self.subject}/{self.version}"


class DestroyedKey(models.Model):
    """Proof that a subject's key was destroyed on purpose; no new key is created."""

    subject = models.UUIDField(primary_key=True)
    erasure = models.UUIDField()
    at = models.DateTimeField()

    privacy = Privacy(
        subject="subject",
        forget=Fate.STAYS,
        holds=parse_fields(id="subject erasure", time="at"),
    )

    def __str__(self) -> str:
        return str(self.subject)


class DestroyedProjectKey(models.Model):
    """Proof that a project's key was destroyed on purpose; no new key is created."""

    project = models.UUIDField(primary_key=True)
    at = models.DateTimeField()

    privacy = Privacy(holds=parse_fields(id="project", time="at"))

    def __str__(self) -> str:
        return str(self.project)


class SigningKey(WrappedKey):
    """An Ed25519 key that signs receipts; the public half is kept for ever."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    public = models.BinaryField(max_length=32)
    #: Id of the endorsing key: the key before; the root endorses itself.
    endorser = models.UUIDField()
    #: The endorser's signature over id and public half.
    endorsement = models.BinaryField(max_length=64)
    created_at = models.DateTimeField()
    retired_at = models.DateTimeField(null=True)

    privacy = Privacy(
        holds=parse_fields(
            id="id kek_id public endorser endorsement",
            sealed="wrapped",
            time="created_at retired_at",
        ),
    )

    def __str__(self) -> str:
        return str(self.id)


class NewestLine(WrappedKey):
    """Noted end of a signed file outside the databases, against cutting off lines.

    `wrapped` is the line's hash, bound to file and number, so that nobody without the
    ring can forge a row.
    """

    file = models.CharField(primary_key=True, max_length=20)
    n = models.BigIntegerField()

    privacy = Privacy(
        holds=parse_fields(id="kek_id", word="file", number="n", sealed="wrapped")
    )

    def __str__(self) -> str:
        return self.place

    @property
    def place(self) -> str:
        """File and number of the line, to which the wrapped hash is bound."""
        return f"{self.file}|{self.n}"


class OperatorKey(WrappedKey):
    """Secret of an operator's second factor, for time-based codes (TOTP)."""

    operator = models.UUIDField(primary_key=True)
    #: Time step of the last used code: no code is accepted twice.
    last_step = models.BigIntegerField(default=0)
    #: Number of recent wrong codes, and the instant of the first wrong code.
    wrong = models.IntegerField(default=0)
    wrong_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()

    privacy = Privacy(
        holds=parse_fields(
            id="operator kek_id",
            sealed="wrapped",
            number="last_step wrong",
            time="created_at wrong_at",
        ),
    )

    def __str__(self) -> str:
        return str(self.operator)


class WebhookKey(WrappedKey):
    """Secret of a webhook, which signs what the receiver is sent."""

    webhook = models.UUIDField(primary_key=True)

    privacy = Privacy(holds=parse_fields(id="webhook kek_id", sealed="wrapped"))

    def __str__(self) -> str:
        return str(self.webhook)


class Passkey(models.Model):
    """A device that signs an operator in (WebAuthn). Nothing here is secret."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    #: Indexed for the list of an operator's passkeys.
    operator = models.UUIDField(db_index=True)
    #: Credential id of the device, unique among all operators.
    credential = models.BinaryField(max_length=1023, unique=True)
    #: Public key of the credential, as sent by the device (COSE).
    public = models.BinaryField(max_length=1024)
    #: Host of the passkey; a browser uses the passkey nowhere else.
    host = models.CharField(max_length=253)
    #: Name that the operator gave the device.
    name = models.CharField(max_length=40)
    #: Signature counter of the device; always 0 if the device does not count.
    signed = models.BigIntegerField()
    created_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    privacy = Privacy(
        holds=parse_fields(
            id="id operator credential public",
            staff="host name",
            number="signed",
            time="created_at used_at",
        ),
    )

    def __str__(self) -> str:
        return str(self.id)


class KekCheck(models.Model):
    """A sentinel sealed under one KEK: a ring that can't open the sentinel is wrong."""

    class State(models.TextChoices):
        CURRENT = "current"
        RETIRED = "retired"

    kek_id = models.CharField(primary_key=True, max_length=16)
    sealed = models.BinaryField(max_length=60)
    state = models.CharField(max_length=7, choices=State.choices, default=State.CURRENT)
    created_at = models.DateTimeField()
    backed_up_at = models.DateTimeField(null=True)
    retired_at = models.DateTimeField(null=True)

    privacy = Privacy(
        holds=parse_fields(
            id="kek_id",
            sealed="sealed",
            word="state",
            time="created_at backed_up_at retired_at",
        ),
    )

    def __str__(self) -> str:
        return self.kek_id


class KeyMeta(models.Model):
    """The single row about this database, locked to create or destroy keys."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    #: Id of the instance whose memory these keys open.
    instance = models.UUIDField()

    privacy = Privacy(holds=parse_fields(id="id instance"))

    class Meta:
        constraints = [
            models.CheckConstraint(name="one_key_meta", condition=models.Q(id=1)),
        ]

    def __str__(self) -> str:
        return str(self.instance)
