"""Keys of projects and subjects: creation, opening, caching and destruction.

Keys are stored only wrapped. A key that is absent without proof of its destruction is
lost, never "erased".
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
#: Number of opened keys that a process caches, and seconds that it caches each.
_KEPT = 1_000
_KEPT_SECONDS = 60
_FIRST = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectKeys:
    """Opened key of a project: `ids` digests user ids and erased thread names."""

    project: UUID
    ids: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectKeys:
    """Opened keys of a subject, one sub-key per use.

    Payloads are sealed under the newest version and opened under their own. The digest
    keys are always those of version 1: a digest that changed with the version would no
    longer match earlier digests.
    """

    project: UUID
    subject: UUID
    #: Key version that seals new payloads.
    version: int
    ciphers: Mapping[int, AESGCM] = field(repr=False)
    terms: bytes = field(repr=False)
    lookup: bytes = field(repr=False)
    dedupe: bytes = field(repr=False)
    values: bytes = field(repr=False)
    audit: bytes = field(repr=False)

    def get_cipher(self, version: int) -> AESGCM:
        """Get a version's payload cipher; no query unless the version is newer.

        Raises SealBrokenError for a version that never existed, KeyMissingError for a
        lost version.
        """
        loaded = self
        if version > self.version:
            # Another process has begun a version since these keys were loaded.
            loaded = _load_subject_keys(self.subject)
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
    """Create a project's key unless it exists. Commit the key before the project."""
    kek, key = keyring.get_ring().current, AESGCM.generate_key(8 * KEY_BYTES)
    wrapped = wrap(kek, key, purpose=KeyPurpose.PROJECT, owner=project_id)
    ProjectKey.objects.using("keys").get_or_create(
        project=project_id, defaults={"kek_id": kek.id, "wrapped": wrapped}
    )


def get_project_key(project_id: UUID) -> ProjectKeys:
    """Get a project's opened key. One query, or none if cached.

    Raises ProjectDeletedError for a destroyed key, KeyMissingError for a lost key.
    """
    if cached := _projects.get(project_id):
        return cached
    row = ProjectKey.objects.using("keys").filter(project=project_id).first()
    if row is None:
        # Read the key before the proof, as for subjects: one transaction swaps the two.
        gone = DestroyedProjectKey.objects.using("keys").filter(project=project_id)
        raise ProjectDeletedError if gone.exists() else KeyMissingError
    kek = keyring.get_kek(row.kek_id)
    key = unwrap(kek, bytes(row.wrapped), purpose=KeyPurpose.PROJECT, owner=project_id)
    opened = ProjectKeys(
        project=project_id, ids=_derive_sub_key(key, project_id, "ids")
    )
    _projects.put(project_id, opened)
    return opened


def create_subject_key(subject_id: UUID, *, project_id: UUID) -> None:
    """Create a subject's first key unless it exists.

    Commit the key before the first row sealed with it: a key without a subject is swept
    after an hour. Raises SubjectErasedError when the subject's key was destroyed.
    """
    _create_version(subject_id, project_id=project_id, version=_FIRST)


def get_subject_keys(subject_id: UUID, *, epoch: int) -> SubjectKeys:
    """Get a subject's opened keys. One query, or none if cached.

    `epoch` is the subject's epoch, just read by the caller: keys cached under an older
    epoch are never used again. Raises SubjectErasedError for destroyed keys,
    KeyMissingError for lost ones.
    """
    if cached := _subjects.get((subject_id, epoch)):
        return cached
    opened = _load_subject_keys(subject_id)
    _subjects.put((subject_id, epoch), opened)
    return opened


def load_subject_keys(epochs: Mapping[UUID, int]) -> None:
    """Load the keys of subjects, given with their epochs, into the cache. One query.

    Leaves out what `get_subject_keys` refuses or renews.
    """
    wanted = {each: n for each, n in epochs.items() if not _subjects.get((each, n))}
    found = dict[UUID, list[SubjectKey]]()
    stored = SubjectKey.objects.using("keys").filter(subject__in=wanted)
    for row in stored.order_by("subject", "version") if wanted else ():
        found.setdefault(row.subject, []).append(row)
    for subject, rows in found.items():
        if rows[0].version == _FIRST and rows[-1].seals < seal_count.SEAL_LIMIT:
            opened = _open_subject_keys(subject, rows)
            _subjects.put((subject, wanted[subject]), opened)


def list_wrapped(subject_id: UUID) -> list[bytes]:
    """List the versions of a subject's key in wrapped form. One query."""
    return [bytes(row.wrapped) for row in _list_rows(subject_id)]


def destroy(subject_id: UUID, *, erasure: UUID, at: datetime) -> int:
    """Destroy a subject's keys for good; return the number of versions. Idempotent.

    One transaction replaces the keys with the proof of destruction, so that a key
    absent without proof is known to be lost. On PostgreSQL the table is rewritten,
    since a deleted row's bytes stay in its page.
    """
    with transaction.atomic(using="keys"):
        _lock_keys()
        gone = SubjectKey.objects.using("keys").filter(subject=subject_id)
        count, _ = gone.delete()
        DestroyedKey.objects.using("keys").get_or_create(
            subject=subject_id, defaults={"erasure": erasure, "at": at}
        )
    _rewrite_table(SubjectKey)
    forget(subject_id)
    return count


def destroy_project_key(project_id: UUID, *, at: datetime) -> None:
    """Destroy a project's key for good, as `destroy` does a subject's. Idempotent.

    Also deletes keys of subjects that the closed project no longer accepted.
    """
    with transaction.atomic(using="keys"):
        _lock_keys()
        SubjectKey.objects.using("keys").filter(project=project_id).delete()
        ProjectKey.objects.using("keys").filter(project=project_id).delete()
        DestroyedProjectKey.objects.using("keys").get_or_create(
            project=project_id, defaults={"at": at}
        )
    _rewrite_table(SubjectKey)
    _rewrite_table(ProjectKey)
    _projects.pop(project_id)


def forget(subject_id: UUID) -> None:
    """Drop the opened keys of a subject from this process's cache."""
    _subjects.drop(lambda key, _: key[0] == subject_id)


def _rewrite_table(table: type[WrappedKey]) -> None:
    connection = connections["keys"]
    # VACUUM can not run inside a transaction, as in most tests.
    if connection.vendor != "postgresql" or connection.in_atomic_block:
        return
    with connection.cursor() as cursor:
        cursor.execute(f'VACUUM FULL "{table._meta.db_table}"')


def sweep_orphans(*, older_than: datetime) -> int:
    """Delete keys older than an instant that have no subject; return their number.

    Such keys remain when a process dies between creating a key and its subject. Two
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
    """Drop all opened keys from this process's cache."""
    _projects.clear()
    _subjects.clear()


def _load_subject_keys(subject_id: UUID) -> SubjectKeys:
    seal_count.flush()
    rows = _list_rows(subject_id)
    if not rows or rows[0].version != _FIRST:
        # Read keys before proof: destruction swaps the two in one transaction.
        if DestroyedKey.objects.using("keys").filter(subject=subject_id).exists():
            raise SubjectErasedError
        raise KeyMissingError
    if rows[-1].seals >= seal_count.SEAL_LIMIT:
        following = rows[-1].version + 1
        _create_version(subject_id, project_id=rows[0].project, version=following)
        rows = _list_rows(subject_id)
    return _open_subject_keys(subject_id, rows)


def _list_rows(subject_id: UUID) -> list[SubjectKey]:
    rows = SubjectKey.objects.using("keys").filter(subject=subject_id)
    return list(rows.order_by("version"))


def _open_subject_keys(subject_id: UUID, rows: list[SubjectKey]) -> SubjectKeys:
    keys = {
        row.version: unwrap(
            keyring.get_kek(row.kek_id),
            bytes(row.wrapped),
            purpose=KeyPurpose.SUBJECT,
            owner=subject_id,
        )
        for row in rows
    }
    ciphers = {
        version: AESGCM(_derive_sub_key(key, subject_id, "payload"))
        for version, key in keys.items()
    }
    return SubjectKeys(
        project=rows[0].project,
        subject=subject_id,
        version=rows[-1].version,
        ciphers=MappingProxyType(ciphers),
        terms=_derive_sub_key(keys[_FIRST], subject_id, "terms"),
        lookup=_derive_sub_key(keys[_FIRST], subject_id, "lookup"),
        dedupe=_derive_sub_key(keys[_FIRST], subject_id, "dedupe"),
        values=_derive_sub_key(keys[_FIRST], subject_id, "values"),
        audit=_derive_sub_key(keys[_FIRST], subject_id, "audit"),
    )


def _create_version(subject_id: UUID, *, project_id: UUID, version: int) -> None:
    # Version 256 would not fit the sealed header; the table refuses it. That is
    # after five hundred thousand million seals for one subject.
    kek, key = keyring.get_ring().current, AESGCM.generate_key(8 * KEY_BYTES)
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
    """Lock out other creation and destruction of keys until the transaction ends.

    Without the lock PostgreSQL lets a key be created while its destruction is
    uncommitted.
    """
    KeyMeta.objects.using("keys").select_for_update().get(id=1)


def _derive_sub_key(key: bytes, salt: UUID, use: str) -> bytes:
    """Derive the sub-key of a use by HKDF-SHA256 (RFC 5869)."""
    derivation = HKDF(SHA256(), KEY_BYTES, salt.bytes, f"mh1:{use}".encode())
    return derivation.derive(key)
