"""The tables of the `keys` database: wrapped keys, and what is known of their KEKs.

The router sends these models, and no others, to the alias `keys`.
"""

from __future__ import annotations

from django.db import models

from memoryhub.models.privacy import Fate, Privacy, fields
from memoryhub.models.server.ids import uuid7

#: The version travels in one byte of every sealed payload.
MAX_VERSION = 255


class WrappedKey(models.Model):
    """A key that is stored under one of the ring's KEKs."""

    #: Indexed for the rotation, which looks for all that are under another.
    kek_id = models.CharField(max_length=16, db_index=True)
    wrapped = models.BinaryField(max_length=60)

    class Meta:
        abstract = True


class ProjectKey(WrappedKey):
    """A project's key, wrapped; lives as long as the project."""

    project = models.UUIDField(primary_key=True)

    privacy = Privacy(holds=fields(id="project kek_id", sealed="wrapped"))

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
        holds=fields(
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
            # The sweep of young keys that no subject took.
            models.Index(fields=["created_at"], name="subject_key_age"),
        ]

    def __str__(self) -> str:
        return f"{self.subject}/{self.version}"


class DestroyedKey(models.Model):
    """Proof that a subject's key was destroyed on purpose; no new one is made."""

    subject = models.UUIDField(primary_key=True)
    erasure = models.UUIDField()
    at = models.DateTimeField()

    privacy = Privacy(
        subject="subject",
        forget=Fate.STAYS,
        holds=fields(id="subject erasure", time="at"),
    )

    def __str__(self) -> str:
        return str(self.subject)


class DestroyedProjectKey(models.Model):
    """Proof that a project's key was destroyed on purpose; no new one is made."""

    project = models.UUIDField(primary_key=True)
    at = models.DateTimeField()

    privacy = Privacy(holds=fields(id="project", time="at"))

    def __str__(self) -> str:
        return str(self.project)


class SigningKey(WrappedKey):
    """An Ed25519 key that signs receipts; the public half is kept for ever."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    public = models.BinaryField(max_length=32)
    #: The key before it, which vouches for it; the first one, the root, for itself.
    endorser = models.UUIDField()
    #: The endorser's signature over id and public half.
    endorsement = models.BinaryField(max_length=64)
    created_at = models.DateTimeField()
    retired_at = models.DateTimeField(null=True)

    privacy = Privacy(
        holds=fields(
            id="id kek_id public endorser endorsement",
            sealed="wrapped",
            time="created_at retired_at",
        ),
    )

    def __str__(self) -> str:
        return str(self.id)


class NewestLine(WrappedKey):
    """How far a signed file outside the databases goes: the counter that it can't cut.

    Wrapped is the line's hash, bound to file and number: who can write this table but
    has no ring can't say anything else.
    """

    file = models.CharField(primary_key=True, max_length=20)
    n = models.BigIntegerField()

    privacy = Privacy(
        holds=fields(id="kek_id", word="file", number="n", sealed="wrapped")
    )

    def __str__(self) -> str:
        return self.place

    @property
    def place(self) -> str:
        """What the hash is bound to."""
        return f"{self.file}|{self.n}"


class OperatorKey(WrappedKey):
    """What an operator's second factor is reckoned from: a secret for codes by time."""

    operator = models.UUIDField(primary_key=True)
    #: The stretch of time whose code was used last: none is taken twice.
    last_step = models.BigIntegerField(default=0)
    #: Codes that were wrong lately, and when the first of them was.
    wrong = models.IntegerField(default=0)
    wrong_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()

    privacy = Privacy(
        holds=fields(
            id="operator kek_id",
            sealed="wrapped",
            number="last_step wrong",
            time="created_at wrong_at",
        ),
    )

    def __str__(self) -> str:
        return str(self.operator)


class Passkey(models.Model):
    """A device that signs an operator in (WebAuthn). Nothing here is secret."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    #: Indexed for the list of one operator's.
    operator = models.UUIDField(db_index=True)
    #: By what the device knows it; no two people have the same.
    credential = models.BinaryField(max_length=1023, unique=True)
    #: The credential's public key, as the device tells it (COSE).
    public = models.BinaryField(max_length=1024)
    #: The host that it is for; a browser uses it nowhere else.
    host = models.CharField(max_length=253)
    #: What its operator calls the device.
    name = models.CharField(max_length=40)
    #: How often it signed, if it counts; else 0 for ever.
    signed = models.BigIntegerField()
    created_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    privacy = Privacy(
        holds=fields(
            id="id operator credential public",
            staff="host name",
            number="signed",
            time="created_at used_at",
        ),
    )

    def __str__(self) -> str:
        return str(self.id)


class KekCheck(models.Model):
    """A sentinel sealed under one KEK: it opens, or the ring is the wrong one."""

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
        holds=fields(
            id="kek_id",
            sealed="sealed",
            word="state",
            time="created_at backed_up_at retired_at",
        ),
    )

    def __str__(self) -> str:
        return self.kek_id


class KeyMeta(models.Model):
    """The one row about this database; whoever makes or destroys keys locks it."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    #: The instance whose memory these keys open.
    instance = models.UUIDField()

    privacy = Privacy(holds=fields(id="id instance"))

    class Meta:
        constraints = [
            models.CheckConstraint(name="one_key_meta", condition=models.Q(id=1)),
        ]

    def __str__(self) -> str:
        return str(self.instance)
