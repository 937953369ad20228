from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.db import IntegrityError, transaction
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from memoryhub.errors import KeyMissingError, SealBrokenError, SubjectErasedError
from memoryhub.models.keys import DestroyedKey, ProjectKey, SubjectKey
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.vault.keys import keys, ring_file, seal_count
from memoryhub.vault.keys.keys import SubjectKeys
from memoryhub.vault.keys.ring_file import Ring
from memoryhub.vault.keys.wrapping import KeyPurpose, unwrap

pytestmark = pytest.mark.django_db(databases=["default", "keys"])


def destroy(subject: UUID) -> None:
    SubjectKey.objects.filter(subject=subject).delete()
    DestroyedKey.objects.create(subject=subject, erasure=uuid4(), at=timezone.now())


def reaches_limit(opened: SubjectKeys) -> None:
    SubjectKey.objects.filter(subject=opened.subject, version=opened.version).update(
        seals=seal_count.SEAL_LIMIT
    )
    keys.reset()


def test_subject_key_is_stored_wrapped_only(ring: Ring, ann: SubjectKeys) -> None:
    row = SubjectKey.objects.get()
    assert (row.subject, row.version, row.project) == (ann.subject, 1, ann.project)
    assert (row.kek_id, len(row.wrapped)) == (ring.current_id, 60)


def test_sub_keys_are_derived_by_hkdf_one_for_each_use(
    ring: Ring, ann: SubjectKeys
) -> None:
    row = SubjectKey.objects.get()
    data_key = unwrap(
        ring.current, bytes(row.wrapped), purpose=KeyPurpose.SUBJECT, owner=ann.subject
    )

    def derive_expected(use: str) -> bytes:
        info = b"mh1:" + use.encode()
        return HKDF(SHA256(), 32, ann.subject.bytes, info).derive(data_key)

    uses = ("terms", "lookup", "dedupe", "values", "audit")
    derived = [getattr(ann, use) for use in uses]
    assert derived == [derive_expected(use) for use in uses]
    assert len({*derived, derive_expected("payload"), data_key}) == 7
    nonce = bytes(12)
    sealed = ann.get_cipher(1).encrypt(nonce, b"hello", None)
    assert AESGCM(derive_expected("payload")).decrypt(nonce, sealed, None) == b"hello"


def test_project_key_opens_and_is_made_once(ring: Ring, project: UUID) -> None:
    keys.create_project_key(project)
    opened = keys.get_project_key(project)
    assert (opened.project, len(opened.ids)) == (project, 32)
    keys.create_project_key(project)
    keys.reset()
    assert keys.get_project_key(project) == opened
    other = uuid4()
    keys.create_project_key(other)
    assert keys.get_project_key(other).ids != opened.ids


def test_making_a_subject_key_again_keeps_the_first(ann: SubjectKeys) -> None:
    keys.create_subject_key(ann.subject, project_id=ann.project)
    keys.reset()
    assert keys.get_subject_keys(ann.subject, epoch=1).terms == ann.terms
    assert SubjectKey.objects.count() == 1


def test_opened_keys_are_cached_per_epoch(
    ann: SubjectKeys, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(0, using="keys"):
        assert keys.get_subject_keys(ann.subject, epoch=1) is ann
    with django_assert_num_queries(1, using="keys"):
        assert keys.get_subject_keys(ann.subject, epoch=2) is not ann


def test_project_key_is_cached(
    ring: Ring, project: UUID, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    keys.create_project_key(project)
    with django_assert_num_queries(1, using="keys"):
        keys.get_project_key(project)
    with django_assert_num_queries(0, using="keys"):
        keys.get_project_key(project)


def test_cached_key_is_never_used_in_a_later_epoch(ann: SubjectKeys) -> None:
    destroy(ann.subject)
    assert keys.get_subject_keys(ann.subject, epoch=1) is ann
    with pytest.raises(SubjectErasedError):
        keys.get_subject_keys(ann.subject, epoch=2)


def test_lost_key_is_not_erased(ann: SubjectKeys) -> None:
    SubjectKey.objects.all().delete()
    keys.reset()
    with pytest.raises(KeyMissingError):
        keys.get_subject_keys(ann.subject, epoch=1)


def test_key_without_its_first_version_is_lost(ann: SubjectKeys) -> None:
    reaches_limit(ann)
    keys.get_subject_keys(ann.subject, epoch=1)
    SubjectKey.objects.filter(version=1).delete()
    keys.reset()
    with pytest.raises(KeyMissingError):
        keys.get_subject_keys(ann.subject, epoch=1)


def test_key_that_no_longer_unwraps_is_lost(ann: SubjectKeys) -> None:
    SubjectKey.objects.update(wrapped=b"w" * 60)
    keys.reset()
    with pytest.raises(KeyMissingError):
        keys.get_subject_keys(ann.subject, epoch=1)


def test_key_under_a_kek_that_is_gone_is_lost(ann: SubjectKeys, kek_file: Path) -> None:
    ring_file.replace(kek_file, ring_file.make_ring())
    keys.reset()
    with pytest.raises(KeyMissingError):
        keys.get_subject_keys(ann.subject, epoch=1)


def test_unknown_project_has_no_key(ring: Ring, project: UUID) -> None:
    with pytest.raises(KeyMissingError):
        keys.get_project_key(project)
    keys.create_project_key(project)
    ProjectKey.objects.all().delete()
    with pytest.raises(KeyMissingError):
        keys.get_project_key(project)


def test_destroyed_key_is_not_recreated(ann: SubjectKeys) -> None:
    destroy(ann.subject)
    with pytest.raises(SubjectErasedError):
        keys.create_subject_key(ann.subject, project_id=ann.project)
    assert not SubjectKey.objects.exists()
    keys.reset()
    with pytest.raises(SubjectErasedError):
        keys.get_subject_keys(ann.subject, epoch=1)


def test_key_at_its_limit_gets_a_new_version_and_keeps_digest_keys(
    ann: SubjectKeys,
) -> None:
    reaches_limit(ann)
    newer = keys.get_subject_keys(ann.subject, epoch=1)
    assert (newer.version, sorted(newer.ciphers)) == (2, [1, 2])
    uses = ("terms", "lookup", "dedupe", "values", "audit")
    assert [getattr(newer, use) for use in uses] == [getattr(ann, use) for use in uses]
    keys.reset()
    assert keys.get_subject_keys(ann.subject, epoch=1).version == 2


def test_key_version_stays_below_the_limit(ann: SubjectKeys) -> None:
    SubjectKey.objects.update(seals=seal_count.SEAL_LIMIT - 1)
    keys.reset()
    assert keys.get_subject_keys(ann.subject, epoch=1).version == 1


def test_keys_that_are_behind_learn_a_version_another_process_made(
    ann: SubjectKeys,
) -> None:
    reaches_limit(ann)
    newer = keys.get_subject_keys(ann.subject, epoch=1)
    nonce = bytes(12)
    sealed = newer.get_cipher(2).encrypt(nonce, b"hello", None)
    assert ann.get_cipher(2).decrypt(nonce, sealed, None) == b"hello"


@pytest.mark.parametrize("version", [0, 2, 255])
def test_version_that_never_was_is_damage(ann: SubjectKeys, version: int) -> None:
    with pytest.raises(SealBrokenError):
        ann.get_cipher(version)


def test_version_that_is_gone_is_a_lost_key(ann: SubjectKeys) -> None:
    reaches_limit(ann)
    reaches_limit(keys.get_subject_keys(ann.subject, epoch=1))
    keys.get_subject_keys(ann.subject, epoch=1)
    SubjectKey.objects.filter(version=2).delete()
    keys.reset()
    with pytest.raises(KeyMissingError):
        keys.get_subject_keys(ann.subject, epoch=1).get_cipher(2)


def test_table_refuses_a_version_that_fits_no_header(ann: SubjectKeys) -> None:
    with pytest.raises(IntegrityError), transaction.atomic(using="keys"):
        SubjectKey.objects.update(version=256)


def test_no_representation_shows_a_key(ann: SubjectKeys, project: UUID) -> None:
    keys.create_project_key(project)
    opened = keys.get_project_key(project)
    for secret in (ann.terms, ann.dedupe, ann.audit, opened.ids):
        assert repr(secret) not in repr(ann) + repr(opened)


def test_key_that_no_subject_took_is_swept_after_its_time(
    ann: SubjectKeys, bob: SubjectKeys
) -> None:
    now = timezone.now()
    tenant = Project.objects.create(id=ann.project, slug="acme", created_at=now)
    Subject.objects.create(id=ann.subject, project=tenant, created_at=now)
    assert keys.sweep_orphans(older_than=now - timedelta(hours=1)) == 0
    assert SubjectKey.objects.count() == 2
    assert keys.sweep_orphans(older_than=now + timedelta(seconds=1)) == 1
    assert SubjectKey.objects.get().subject == ann.subject


def test_sweep_costs_two_queries_a_thousand_keys(
    ring: Ring, project: UUID, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    now = timezone.now()
    tenant = Project.objects.create(id=project, slug="acme", created_at=now)
    subjects = [Subject(project=tenant, created_at=now) for _ in range(2_500)]
    Subject.objects.bulk_create(subjects)
    SubjectKey.objects.bulk_create(
        SubjectKey(
            subject=subject.id,
            version=1,
            project=project,
            kek_id=ring.current_id,
            wrapped=b"w" * 60,
            created_at=now,
        )
        for subject in subjects
    )
    later = now + timedelta(seconds=1)
    with (
        django_assert_num_queries(4, using="keys"),
        django_assert_num_queries(3, using="default"),
    ):
        assert keys.sweep_orphans(older_than=later) == 0
    Subject.objects.all().delete()
    assert keys.sweep_orphans(older_than=later) == 2_500
