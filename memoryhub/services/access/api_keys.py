"""API keys: made, shown once, checked, rotated, revoked."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction

from memoryhub import journal
from memoryhub.errors import InvalidError
from memoryhub.journal import Address, Birth, audit
from memoryhub.journal.log import fence
from memoryhub.kernel.commands import CreateThread
from memoryhub.kernel.state.events import Limits
from memoryhub.kernel.text import names
from memoryhub.models.access.api_keys import MEMORY_SCOPES, SUBJECT_SCOPES, ApiKey
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.services.access.audit import COMMAND

_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#: `mh_<env>_<prefix 8>_<secret 43><checksum 6>`; also the leak pattern for scanners.
SHAPE = re.compile(r"mh_[a-z]{2,8}_([0-9A-Za-z]{8})_[0-9A-Za-z]{49}")
ROTATION = timedelta(hours=24)
#: Characters of a key's name.
MAX_NAME = 64
_DUMMY = hashlib.sha256(b"no key has this digest").digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """Who holds a key: the project it is confined to, and what it may do there."""

    key: UUID
    prefix: str
    project: UUID
    slug: str
    scopes: frozenset[str]
    #: The subject the key is bound to, if any.
    bound: UUID | None
    anonymous: UUID
    create_on_write: bool
    #: Of keys whose agent and thread say nothing; None: for ever.
    default_ttl: timedelta | None = None
    #: The bound subject was erased: there is nothing left that the key is for.
    gone: bool = False

    @property
    def actor(self) -> str:
        return f"agent:{self.prefix}"

    def address(self, thread: str, *, birth: Birth | None = None) -> Address:
        """Return a thread of this agent's project, confined to its subject."""
        return Address(
            project=self.project,
            name=thread,
            birth=birth,
            bound=self.bound,
            called=self.bound is not None,
        )

    def calls(self, stored: str) -> str:
        """Return the name by which this agent knows a thread of this stored name."""
        return stored if self.bound is None else names.called(stored, self.bound)

    def birth(self) -> Birth | None:
        """Return how a write makes an unknown thread; None if the project forbids."""
        if not self.create_on_write:
            return None
        subject = self.bound or self.anonymous
        # What is known of nobody in particular stands in no request.
        config = Limits(blocks=False if subject == self.anonymous else None)
        return Birth(subject=subject, command=CreateThread(config=config))


def create(
    project: Project,
    *,
    name: str = "",
    scopes: Iterable[str] = MEMORY_SCOPES,
    subject: Subject | None = None,
    expires_at: datetime | None = None,
    actor: str = COMMAND,
) -> tuple[ApiKey, str]:
    """Make a key. Returns its row and the key itself, which is never shown again.

    Raises ProjectDeletedError, InvalidError `name` for a name that is none, and
    `scopes_mixed` for memory and subject scopes together: what an agent is talked into
    can't erase or export.
    """
    require_creatable(wanted := sorted({*scopes}), name=name, expires_at=expires_at)
    prefix, key = _make_secret()
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
            _note("api_key.made", row, actor=actor)

    journal.run(insert)
    return row, key


def require_creatable(
    scopes: Iterable[str], *, name: str = "", expires_at: datetime | None = None
) -> None:
    """Raise what `create` would.

    Asked before the subject of a bound key is made, so that a refusal makes neither.
    """
    if name and (not names.valid(name) or len(name) > MAX_NAME):
        raise InvalidError(code="name", loc="name")
    _check_scopes(list(scopes))
    if expires_at is not None and expires_at <= clock.now():
        raise InvalidError(code="expiry_in_past", loc="expires_at")


def rotate(row: ApiKey, *, actor: str = COMMAND) -> tuple[ApiKey, str]:
    """Make a new key like this one; the old one ends in 24 hours, or when it was to.

    The new one has its name, and lives no longer than the old one would have. Raises
    InvalidError `expiry_in_past` for a key that has expired.
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
    _change(row, "expires_at", "api_key.rotated", actor=actor)
    return made, key


def revoke(row: ApiKey, *, actor: str = COMMAND) -> None:
    """End the key now; every process has noticed within a second."""
    row.revoked_at = row.revoked_at or clock.now()
    _change(row, "revoked_at", "api_key.revoked", actor=actor)


def _change(row: ApiKey, column: str, action: str, *, actor: str) -> None:
    def change() -> None:
        with transaction.atomic():
            row.save(update_fields=[column])
            _note(action, row, actor=actor)

    journal.run(change)


def _note(action: str, row: ApiKey, *, actor: str) -> None:
    audit.append(
        actor=actor,
        action=action,
        project=row.project_id,
        target_kind="api_key",
        target_id=row.prefix,
        subject=row.subject_id,
    )


def well_formed(key: str) -> str | None:
    """Return the prefix of a key whose checksum holds; typos cost no look-up."""
    shape = SHAPE.fullmatch(key)
    if shape is None or not hmac.compare_digest(checksum(key[:-6]), key[-6:]):
        return None
    return shape[1]


def matches(row: ApiKey | None, key: str, *, now: datetime) -> bool:
    """Return whether the key is this row's and alive.

    Takes as long for no row at all.
    """
    digest = hashlib.sha256(key.encode()).digest()
    same = hmac.compare_digest(bytes(row.digest) if row else _DUMMY, digest)
    if row is None or not same or row.revoked_at is not None:
        return False
    return row.expires_at is None or row.expires_at > now


def checksum(unsigned: str) -> str:
    """Return the CRC-32 of all before it, in six base62 digits."""
    value, digits = zlib.crc32(unsigned.encode()), ""
    for _ in range(6):
        value, digit = divmod(value, 62)
        digits = _BASE62[digit] + digits
    return digits


def _make_secret() -> tuple[str, str]:
    """Make a prefix, and the key that begins with it."""
    prefix, secret = _chance(8), _chance(43)
    unsigned = f"mh_{settings.KEY_ENV}_{prefix}_{secret}"
    return prefix, unsigned + checksum(unsigned)


def _chance(length: int) -> str:
    return "".join(secrets.choice(_BASE62) for _ in range(length))


def _check_scopes(wanted: list[str]) -> None:
    scopes = {*MEMORY_SCOPES, *SUBJECT_SCOPES}
    if not wanted or not scopes.issuperset(wanted):
        raise InvalidError(loc="scopes")
    if not {*MEMORY_SCOPES}.isdisjoint(wanted) and {*SUBJECT_SCOPES} & {*wanted}:
        raise InvalidError(code="scopes_mixed", loc="scopes")
