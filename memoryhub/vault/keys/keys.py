"""Keys of projects and subjects: made, opened and cached; only ever stored wrapped.

A key that is absent without proof of its destruction is lost, never "erased".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from uuid import UUID

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.db import connections, transaction

from memoryhub.errors import (
    KeyMissingError,
    ProjectDeletedError,
    SealBrokenError,
    SubjectErasedError,
)
from memoryhub.models.keys import (
    DestroyedKey,
    DestroyedProjectKey,
    KeyMeta,
    ProjectKey,
    SubjectKey,
    WrappedKey,
)
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.vault.keys import keyring, seal_count
from memoryhub.vault.keys.wrapping import KeyPurpose, unwrap, wrap
from memoryhub.vault.registry.lru import Lru

KEY_BYTES = 32
SWEEP_ROWS = 1_000
#: Opened keys that a process keeps, and for how long.
_KEPT = 1_000
_KEPT_SECONDS = 60
_FIRST = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectKeys:
    """A project's opened key: `ids` digests user ids and erased thread names."""

    project: UUID
    ids: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectKeys:
    """A subject's opened keys, one sub-key a use.

    Payloads are sealed under the newest version and opened under their own. The
    digest keys are those of version 1 for ever: a digest that changed with the
    version would no longer find what it was made to find.
    """

    project: UUID
    subject: UUID
    #: What new payloads are sealed under.
    version: int
    ciphers: Mapping[int, AESGCM] = field(repr=False)
    terms: bytes = field(repr=False)
    lookup: bytes = field(repr=False)
    dedupe: bytes = field(repr=False)
    values: bytes = field(repr=False)
    audit: bytes = field(repr=False)

    def cipher(self, version: int) -> AESGCM:
        """Return a version's payload cipher; no query unless it is newer than these.

        Raises SealBrokenError for a version that never was, KeyMissingError for one
        that is lost.
        """
        loaded = self
        if version > self.version:
            # Another process has begun a version since these keys were loaded.
            loaded = _load(self.subject)
        if found := loaded.ciphers.get(version):
            return found
        if _FIRST <= version <= loaded.version:
            raise KeyMissingError(version=version)
        raise SealBrokenError


_projects: Lru[UUID, ProjectKeys] = Lru(
    _KEPT, seconds=_KEPT_SECONDS, name="encryption keys of projects"
)
_subjects: Lru[tuple[UUID, int], SubjectKeys] = Lru(
    _KEPT, seconds=_KEPT_SECONDS, name="encryption keys of subjects"
)


def create_project_key(project_id: UUID) -> None:
    """Make a project's key; one that exists stays. Commit it before the project."""
    kek, key = keyring.ring().current, AESGCM.generate_key(8 * KEY_BYTES)
    wrapped = wrap(kek, key, purpose=KeyPurpose.PROJECT, owner=project_id)
    ProjectKey.objects.using("keys").get_or_create(
        project=project_id, defaults={"kek_id": kek.id, "wrapped": wrapped}
    )


def project_key(project_id: UUID) -> ProjectKeys:
    """Return a project's opened key. One query, or none if cached.

    Raises ProjectDeletedError for one that was destroyed, KeyMissingError for a lost
    one.
    """
    if cached := _projects.get(project_id):
        return cached
    row = ProjectKey.objects.using("keys").filter(project=project_id).first()
    if row is None:
        # As for a subject: the key before the proof, for one is swapped for the other.
        gone = DestroyedProjectKey.objects.using("keys").filter(project=project_id)
        raise ProjectDeletedError if gone.exists() else KeyMissingError
    kek = keyring.kek(row.kek_id)
    key = unwrap(kek, bytes(row.wrapped), purpose=KeyPurpose.PROJECT, owner=project_id)
    opened = ProjectKeys(project=project_id, ids=_sub_key(key, project_id, "ids"))
    _projects.put(project_id, opened)
    return opened


def create_subject_key(subject_id: UUID, *, project_id: UUID) -> None:
    """Make a subject's first key; one that exists stays.

    Commit it before the first row sealed under it: a key without a subject is swept
    after an hour. Raises SubjectErasedError when the subject's key was destroyed.
    """
    _create_version(subject_id, project_id=project_id, version=_FIRST)


def subject_keys(subject_id: UUID, *, epoch: int) -> SubjectKeys:
    """Return a subject's opened keys. One query, or none if cached.

    `epoch` is what the caller has just read of the subject: keys cached under an
    older one are never used again. Raises SubjectErasedError for destroyed keys,
    KeyMissingError for lost ones.
    """
    if cached := _subjects.get((subject_id, epoch)):
        return cached
    opened = _load(subject_id)
    _subjects.put((subject_id, epoch), opened)
    return opened


def wrapped(subject_id: UUID) -> list[bytes]:
    """Return each version of a subject's key as it is stored. One query."""
    return [bytes(row.wrapped) for row in _rows(subject_id)]


def destroy(subject_id: UUID, *, erasure: UUID, at: datetime) -> int:
    """Destroy a subject's keys for good; returns how many versions went. Idempotent.

    One transaction swaps them for the proof of it, so that a key which is absent
    without that proof is known to be lost. On PostgreSQL the small table is written
    anew, since a deleted row's bytes stay in its page.
    """
    with transaction.atomic(using="keys"):
        _lock_keys()
        gone = SubjectKey.objects.using("keys").filter(subject=subject_id)
        count, _ = gone.delete()
        DestroyedKey.objects.using("keys").get_or_create(
            subject=subject_id, defaults={"erasure": erasure, "at": at}
        )
    _rewrite(SubjectKey)
    forget(subject_id)
    return count


def destroy_project_key(project_id: UUID, *, at: datetime) -> None:
    """Destroy a project's key for good, as `destroy` does a subject's. Idempotent.

    With it go the keys of those whom the closed project did not take any more.
    """
    with transaction.atomic(using="keys"):
        _lock_keys()
        SubjectKey.objects.using("keys").filter(project=project_id).delete()
        ProjectKey.objects.using("keys").filter(project=project_id).delete()
        DestroyedProjectKey.objects.using("keys").get_or_create(
            project=project_id, defaults={"at": at}
        )
    _rewrite(SubjectKey)
    _rewrite(ProjectKey)
    _projects.pop(project_id)


def forget(subject_id: UUID) -> None:
    """Forget what this process has opened of a subject."""
    _subjects.drop(lambda key, _: key[0] == subject_id)


def _rewrite(table: type[WrappedKey]) -> None:
    connection = connections["keys"]
    # Inside of a transaction, as in most tests, there is no VACUUM.
    if connection.vendor != "postgresql" or connection.in_atomic_block:
        return
    with connection.cursor() as cursor:
        cursor.execute(f'VACUUM FULL "{table._meta.db_table}"')


def sweep_orphans(*, older_than: datetime) -> int:
    """Delete the keys made before a time that no subject took; returns how many.

    They are left when a process dies between making a key and its subject. Two
    queries for every thousand keys.
    """
    keys = SubjectKey.objects.using("keys").filter(created_at__lt=older_than)
    made = keys.order_by("subject").values_list("subject", flat=True).distinct()
    swept, after = 0, UUID(int=0)
    while batch := list(made.filter(subject__gt=after)[:SWEEP_ROWS]):
        taken = Subject.objects.filter(id__in=batch).values_list("id", flat=True)
        orphans = set(batch).difference(taken)
        if orphans:
            SubjectKey.objects.using("keys").filter(subject__in=orphans).delete()
        swept, after = swept + len(orphans), batch[-1]
    return swept


def reset() -> None:
    """Forget every key that was opened."""
    _projects.clear()
    _subjects.clear()


def _load(subject_id: UUID) -> SubjectKeys:
    seal_count.flush()
    rows = _rows(subject_id)
    if not rows or rows[0].version != _FIRST:
        # Keys before proof: destroying swaps one for the other in one transaction.
        if DestroyedKey.objects.using("keys").filter(subject=subject_id).exists():
            raise SubjectErasedError
        raise KeyMissingError
    if rows[-1].seals >= seal_count.SEAL_LIMIT:
        following = rows[-1].version + 1
        _create_version(subject_id, project_id=rows[0].project, version=following)
        rows = _rows(subject_id)
    return _opened(subject_id, rows)


def _rows(subject_id: UUID) -> list[SubjectKey]:
    rows = SubjectKey.objects.using("keys").filter(subject=subject_id)
    return list(rows.order_by("version"))


def _opened(subject_id: UUID, rows: list[SubjectKey]) -> SubjectKeys:
    keys = {
        row.version: unwrap(
            keyring.kek(row.kek_id),
            bytes(row.wrapped),
            purpose=KeyPurpose.SUBJECT,
            owner=subject_id,
        )
        for row in rows
    }
    ciphers = {
        version: AESGCM(_sub_key(key, subject_id, "payload"))
        for version, key in keys.items()
    }
    return SubjectKeys(
        project=rows[0].project,
        subject=subject_id,
        version=rows[-1].version,
        ciphers=MappingProxyType(ciphers),
        terms=_sub_key(keys[_FIRST], subject_id, "terms"),
        lookup=_sub_key(keys[_FIRST], subject_id, "lookup"),
        dedupe=_sub_key(keys[_FIRST], subject_id, "dedupe"),
        values=_sub_key(keys[_FIRST], subject_id, "values"),
        audit=_sub_key(keys[_FIRST], subject_id, "audit"),
    )


def _create_version(subject_id: UUID, *, project_id: UUID, version: int) -> None:
    # Version 256 would not fit the sealed header; the table refuses it. That is
    # after five hundred thousand million seals for one subject.
    kek, key = keyring.ring().current, AESGCM.generate_key(8 * KEY_BYTES)
    with transaction.atomic(using="keys"):
        _lock_keys()
        if DestroyedKey.objects.using("keys").filter(subject=subject_id).exists():
            raise SubjectErasedError
        SubjectKey.objects.using("keys").get_or_create(
            subject=subject_id,
            version=version,
            defaults={
                "project": project_id,
                "kek_id": kek.id,
                "wrapped": wrap(kek, key, purpose=KeyPurpose.SUBJECT, owner=subject_id),
                "created_at": clock.now(),
            },
        )


def _lock_keys() -> None:
    """Until the transaction ends, nobody else makes or destroys a subject's key.

    Without it PostgreSQL lets a key be made while its destruction is uncommitted.
    """
    KeyMeta.objects.using("keys").select_for_update().get(id=1)


def _sub_key(key: bytes, salt: UUID, use: str) -> bytes:
    """HKDF-SHA256 (RFC 5869): a key of its own for each use."""
    derivation = HKDF(SHA256(), KEY_BYTES, salt.bytes, f"mh1:{use}".encode())
    return derivation.derive(key)
