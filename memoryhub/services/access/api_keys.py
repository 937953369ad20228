"""API keys: creation, verification, rotation and revocation."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction

from memoryhub import journal
from memoryhub.errors import InvalidError
from memoryhub.journal import Address, NewThread, audit
from memoryhub.journal.log import fence
from memoryhub.kernel.commands import CreateThread
from memoryhub.kernel.state.events import ThreadConfig
from memoryhub.kernel.text import names
from memoryhub.models.access.api_keys import MEMORY_SCOPES, SUBJECT_SCOPES, ApiKey
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.services.access.audit import COMMAND_ACTOR

_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#: `mh_<env>_<prefix 8>_<secret 43><checksum 6>`; also the leak pattern for scanners.
KEY_PATTERN = re.compile(r"mh_[a-z]{2,8}_([0-9A-Za-z]{8})_[0-9A-Za-z]{49}")
ROTATION = timedelta(hours=24)
#: Characters of a key's name.
MAX_NAME = 64
_DUMMY_DIGEST = hashlib.sha256(b"no key has this digest").digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """Holder of an API key: the project, subject and scopes that confine requests."""

    key: UUID
    prefix: str
    project: UUID
    slug: str
    scopes: frozenset[str]
    #: The subject the key is bound to, if any.
    bound: UUID | None
    anonymous: UUID
    create_on_write: bool
    #: Time to live of memory keys whose agent and thread set none; None: for ever.
    default_ttl: timedelta | None = None
    #: Whether the bound subject was erased, which leaves the key without a use.
    gone: bool = False
    #: User id of the person whom the request names and nobody has made yet.
    unknown_person: str | None = field(default=None, repr=False)
    #: Inserts that person's row, whose id is `bound`, with the person's first thread.
    insert_subject: Callable[[], Subject] | None = None

    @property
    def actor(self) -> str:
        """Name of this agent in events and in the audit log."""
        return f"agent:{self.prefix}"

    def address(self, thread: str, *, birth: NewThread | None = None) -> Address:
        """Build the address of a thread in the agent's project and subject."""
        if birth is not None and self.insert_subject is not None:
            birth = replace(birth, insert_subject=self.insert_subject)
        return Address(
            project=self.project,
            name=thread,
            birth=birth,
            bound=self.bound,
            called=self.bound is not None,
        )

    def get_thread_name(self, stored: str) -> str:
        """Return the agent's name of the thread stored under this name."""
        return (
            stored if self.bound is None else names.remove_subject(stored, self.bound)
        )

    def build_birth(self, subject: UUID | None = None) -> NewThread | None:
        """Build the birth of an unknown thread; None if the project forbids it.

        The thread is the named subject's, else that of the agent.
        """
        if not self.create_on_write:
            return None
        subject = subject or self.bound or self.anonymous
        # Blocks of the anonymous subject stand in no request.
        config = ThreadConfig(blocks=False if subject == self.anonymous else None)
        return NewThread(subject=subject, command=CreateThread(config=config))


def create(
    project: Project,
    *,
    name: str = "",
    scopes: Iterable[str] = MEMORY_SCOPES,
    subject: Subject | None = None,
    expires_at: datetime | None = None,
    actor: str = COMMAND_ACTOR,
) -> tuple[ApiKey, str]:
    """Create a key. Returns its row and the key itself, which is never shown again.

    Raises ProjectDeletedError, InvalidError `name` for an invalid name, and
    `scopes_mixed` for memory and subject scopes together: an agent under prompt
    injection must not be able to erase or export.
    """
    require_creatable(wanted := sorted({*scopes}), name=name, expires_at=expires_at)
    prefix, key = _generate_key()
    row = ApiKey(
        project=project,
        prefix=prefix,
        name=name,
        digest=hashlib.sha256(key.encode()).digest(),
        scopes=" ".join(wanted),
        subject=subject,
        created_at=clock.now(),
        expires_at=expires_at,
    )

    def insert() -> None:
        with transaction.atomic():
            fence.require_active(project.id)
            row.save(force_insert=True)
            _audit_key("api_key.made", row, actor=actor)

    journal.run(insert)
    return row, key


def require_creatable(
    scopes: Iterable[str], *, name: str = "", expires_at: datetime | None = None
) -> None:
    """Raise the error that `create` would raise for these arguments.

    Callers ask before they create the subject of a bound key, so that a refusal creates
    neither subject nor key.
    """
    if name and (not names.is_valid(name) or len(name) > MAX_NAME):
        raise InvalidError(code="name", loc="name")
    _check_scopes(list(scopes))
    if expires_at is not None and expires_at <= clock.now():
        raise InvalidError(code="expiry_in_past", loc="expires_at")


def rotate(row: ApiKey, *, actor: str = COMMAND_ACTOR) -> tuple[ApiKey, str]:
    """Create a key like this one; the old key expires in 24 hours or at its own expiry.

    The new key has the old key's name and expiry. Raises InvalidError `expiry_in_past`
    for a key that has expired.
    """
    made, key = create(
        row.project,
        name=row.name,
        scopes=row.scopes.split(),
        subject=row.subject,
        expires_at=row.expires_at,
        actor=actor,
    )
    end = clock.now() + ROTATION
    row.expires_at = min(row.expires_at or end, end)
    _save_change(row, "expires_at", "api_key.rotated", actor=actor)
    return made, key


def revoke(row: ApiKey, *, actor: str = COMMAND_ACTOR) -> None:
    """Revoke the key now; every process notices within a second."""
    row.revoked_at = row.revoked_at or clock.now()
    _save_change(row, "revoked_at", "api_key.revoked", actor=actor)


def _save_change(row: ApiKey, column: str, action: str, *, actor: str) -> None:
    """Save one column of the key and the audit entry in one transaction."""

    def change() -> None:
        with transaction.atomic():
            row.save(update_fields=[column])
            _audit_key(action, row, actor=actor)

    journal.run(change)


def _audit_key(action: str, row: ApiKey, *, actor: str) -> None:
    """Append an audit entry about a key; call inside a transaction."""
    audit.append(
        actor=actor,
        action=action,
        project=row.project_id,
        target_kind="api_key",
        target_id=row.prefix,
        subject=row.subject_id,
    )


def parse_prefix(key: str) -> str | None:
    """Parse the prefix of a key; None if the checksum fails, so typos cost no query."""
    shape = KEY_PATTERN.fullmatch(key)
    if shape is None or not hmac.compare_digest(compute_checksum(key[:-6]), key[-6:]):
        return None
    return shape[1]


def is_valid_key(row: ApiKey | None, key: str, *, now: datetime) -> bool:
    """Return whether the key belongs to this row and is neither revoked nor expired.

    Takes equally long without a row.
    """
    digest = hashlib.sha256(key.encode()).digest()
    same = hmac.compare_digest(bytes(row.digest) if row else _DUMMY_DIGEST, digest)
    if row is None or not same or row.revoked_at is not None:
        return False
    return row.expires_at is None or row.expires_at > now


def compute_checksum(unsigned: str) -> str:
    """Compute the CRC-32 of the key's text before it, as six base62 digits."""
    value, digits = zlib.crc32(unsigned.encode()), ""
    for _ in range(6):
        value, digit = divmod(value, 62)
        digits = _BASE62[digit] + digits
    return digits


def _generate_key() -> tuple[str, str]:
    """Generate a prefix, and the key that begins with the prefix."""
    prefix, secret = _generate_text(8), _generate_text(43)
    unsigned = f"mh_{settings.KEY_ENV}_{prefix}_{secret}"
    return prefix, unsigned + compute_checksum(unsigned)


def _generate_text(length: int) -> str:
    """Generate random base62 text of this length."""
    return "".join(secrets.choice(_BASE62) for _ in range(length))


def _check_scopes(wanted: list[str]) -> None:
    """Raise InvalidError for unknown, missing or mixed scopes."""
    scopes = {*MEMORY_SCOPES, *SUBJECT_SCOPES}
    if not wanted or not scopes.issuperset(wanted):
        raise InvalidError(loc="scopes")
    if not {*MEMORY_SCOPES}.isdisjoint(wanted) and {*SUBJECT_SCOPES} & {*wanted}:
        raise InvalidError(code="scopes_mixed", loc="scopes")
