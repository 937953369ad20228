from __future__ import annotations

import pytest
from pytest_django import DjangoAssertNumQueries

from memoryhub.models.keys import SubjectKey
from memoryhub.vault.keys import keys, seal_count
from memoryhub.vault.keys.keys import SubjectKeys

pytestmark = pytest.mark.django_db(databases=["default", "keys"])


def test_nonce_prefix_is_marked_once_in_65536() -> None:
    prefixes = (number.to_bytes(2) for number in range(1 << 16))
    marked = [prefix for prefix in prefixes if seal_count.is_marked(prefix + bytes(10))]
    assert len(marked) == 1
    assert seal_count.SEALS_PER_MARK == 1 << 16


def test_seal_counts_reach_the_row_when_a_key_is_next_loaded(
    ann: SubjectKeys, bob: SubjectKeys
) -> None:
    for _ in range(3):
        seal_count.note(ann.subject, version=1)
    assert SubjectKey.objects.get(subject=ann.subject).seals == 0
    keys.reset()
    keys.get_subject_keys(bob.subject, epoch=1)
    assert SubjectKey.objects.get(subject=ann.subject).seals == 3 << 16
    assert SubjectKey.objects.get(subject=bob.subject).seals == 0


def test_seal_count_is_written_once_and_costs_nothing_when_empty(
    ann: SubjectKeys, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    seal_count.note(ann.subject, version=1)
    seal_count.flush()
    with django_assert_num_queries(0, using="keys"):
        seal_count.flush()
    assert SubjectKey.objects.get().seals == 1 << 16


def test_seal_count_of_a_destroyed_key_makes_no_row(ann: SubjectKeys) -> None:
    seal_count.note(ann.subject, version=1)
    SubjectKey.objects.all().delete()
    seal_count.flush()
    assert not SubjectKey.objects.exists()


def test_two_thousand_million_seals_lead_to_a_new_version(ann: SubjectKeys) -> None:
    for _ in range(seal_count.SEAL_LIMIT >> 16):
        seal_count.note(ann.subject, version=1)
    keys.reset()
    assert keys.get_subject_keys(ann.subject, epoch=1).version == 2
