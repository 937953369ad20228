from __future__ import annotations

from typing import ClassVar

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.db import models

from memoryhub.models.privacy import Privacy, parse_fields
from memoryhub.models.projects import Project
from memoryhub.models.server.ids import NameField, uuid7


class OperatorManager(BaseUserManager["Operator"]):
    """Manager that Django's sign-in requires of a user model."""


class Operator(AbstractBaseUser):
    """A person who signs in to the inspector."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    username = NameField(max_length=64, unique=True)
    is_active = models.BooleanField(default=True)
    created_at = models.DateTimeField()

    privacy = Privacy(
        holds=parse_fields(
            id="id",
            title="username",
            staff="password last_login created_at",
            word="is_active",
        ),
    )

    objects: ClassVar[OperatorManager] = OperatorManager()

    USERNAME_FIELD = "username"

    def __str__(self) -> str:
        return str(self.id)


class Membership(models.Model):
    """Role of an operator in a project; each role includes the role before."""

    class Role(models.TextChoices):
        VIEWER = "viewer"
        EDITOR = "editor"
        OFFICER = "officer"
        OWNER = "owner"

    pk = models.CompositePrimaryKey("project_id", "operator_id")
    project = models.ForeignKey(
        Project, models.CASCADE, related_name="memberships", db_index=False
    )
    operator = models.ForeignKey(Operator, models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=7, choices=Role.choices)

    privacy = Privacy(holds=parse_fields(id="project operator", word="role"))

    def __str__(self) -> str:
        return f"{self.project_id}/{self.operator_id}"


class Identity(models.Model):
    """An operator's account at a single sign-on provider: issuer and subject."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    operator = models.ForeignKey(Operator, models.CASCADE, related_name="identities")
    issuer = NameField(max_length=255)
    subject = NameField(max_length=255)
    created_at = models.DateTimeField()

    privacy = Privacy(
        holds=parse_fields(id="id operator", staff="issuer subject", time="created_at")
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(name="one_identity", fields=["issuer", "subject"]),
        ]

    def __str__(self) -> str:
        return str(self.id)


class SignInLink(models.Model):
    """A one-time sign-in link; only its digest is stored."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    digest = models.BinaryField(max_length=32, unique=True)
    operator = models.ForeignKey(Operator, models.CASCADE, related_name="sign_in_links")
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    privacy = Privacy(
        holds=parse_fields(id="id operator", digest="digest", time="expires_at used_at")
    )

    def __str__(self) -> str:
        return str(self.id)


class SignInFailure(models.Model):
    """A failed sign-in, as keyed digests: typed text is not kept."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    at = models.DateTimeField()
    name = models.BinaryField(max_length=32)
    address = models.BinaryField(max_length=32)

    privacy = Privacy(holds=parse_fields(id="id", digest="name address", time="at"))

    class Meta:
        indexes = [
            models.Index(name="failures_of_name", fields=["name", "at"]),
            models.Index(name="failures_of_address", fields=["address", "at"]),
        ]

    def __str__(self) -> str:
        return str(self.id)
