from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime, timedelta

import pytest
from django.core import serializers
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.errors import InvalidError
from memoryhub.models.access.api_keys import MEMORY_SCOPES, SUBJECT_SCOPES, ApiKey
from memoryhub.models.projects import Project
from memoryhub.services.access import api_keys
from memoryhub.services.access.api_keys import KEY_PATTERN, ROTATION
from memoryhub.services.people import subjects

pytestmark = pytest.mark.django_db

LATER = timedelta(days=30)


def is_alive(row: ApiKey, key: str, *, now: datetime | None = None) -> bool:
    """Check the key against its stored row, as the next request does."""
    stored = ApiKey.objects.get(id=row.id)
    return api_keys.is_valid_key(stored, key, now=now or timezone.now())


def test_key_has_its_format_and_leads_to_its_row(acme: Project) -> None:
    row, key = api_keys.create(acme)
    assert re.fullmatch(r"mh_live_[0-9A-Za-z]{8}_[0-9A-Za-z]{49}", key)
    assert api_keys.parse_prefix(key) == row.prefix == key.split("_")[2]
    assert is_alive(row, key)


def test_two_keys_have_nothing_in_common(acme: Project) -> None:
    (one, first), (two, second) = api_keys.create(acme), api_keys.create(acme)
    assert one.prefix != two.prefix
    assert not is_alive(one, second)
    assert not is_alive(two, first)


def test_only_a_digest_of_the_key_is_stored(acme: Project) -> None:
    row, key = api_keys.create(acme)
    stored = ApiKey.objects.get(id=row.id)
    assert bytes(stored.digest) == hashlib.sha256(key.encode()).digest()
    dump = serializers.serialize("json", ApiKey.objects.all())
    secret = key.split("_")[3]
    assert row.prefix in dump
    assert secret not in dump
    assert secret[:43] not in dump
    assert not KEY_PATTERN.search(dump)


@pytest.mark.parametrize("place", range(0, 65, 3))
def test_typo_anywhere_is_refused_without_a_query(
    acme: Project, place: int, django_assert_num_queries
) -> None:
    _, key = api_keys.create(acme)
    place %= len(key)
    other = "b" if key[place] == "a" else "a"
    typo = key[:place] + other + key[place + 1 :]
    with django_assert_num_queries(0):
        assert api_keys.parse_prefix(typo) is None


@given(text=st.text(max_size=80))
def test_arbitrary_text_is_no_key(text: str) -> None:
    assert api_keys.parse_prefix(text) is None


@pytest.mark.parametrize("change", [" {}", "{}\n", "{}\x00", "{}{}", "Bearer {}"])
def test_key_is_neither_trimmed_nor_cut(acme: Project, change: str) -> None:
    _, key = api_keys.create(acme)
    assert api_keys.parse_prefix(change.format(key, key)) is None


def test_revoked_key_is_dead_at_once_and_stays_so(acme: Project) -> None:
    row, key = api_keys.create(acme)
    api_keys.revoke(row)
    assert not is_alive(row, key)
    first = ApiKey.objects.get(id=row.id).revoked_at
    api_keys.revoke(row)
    assert ApiKey.objects.get(id=row.id).revoked_at == first


def test_key_is_dead_at_its_expiry(acme: Project) -> None:
    end = timezone.now() + LATER
    row, key = api_keys.create(acme, expires_at=end)
    assert is_alive(row, key, now=end - timedelta(microseconds=1))
    assert not is_alive(row, key, now=end)


def test_key_expiry_in_the_past_is_refused(acme: Project) -> None:
    with pytest.raises(InvalidError) as refusal:
        api_keys.create(acme, expires_at=datetime(2020, 1, 1, tzinfo=UTC))
    assert refusal.value.loc == "expires_at"
    assert not ApiKey.objects.exists()


def test_rotation_copies_a_key_and_ends_the_old_one_in_a_day(acme: Project) -> None:
    ann = subjects.find_or_create(acme.id, "ann")
    old, old_key = api_keys.create(acme, scopes=["memory:read"], subject=ann)
    new, new_key = api_keys.rotate(old)
    assert (new.scopes, new.subject_id) == ("memory:read", ann.id)
    assert new_key != old_key
    now = timezone.now()
    assert is_alive(new, new_key)
    assert is_alive(old, old_key)
    assert is_alive(old, old_key, now=now + ROTATION - timedelta(minutes=1))
    assert not is_alive(old, old_key, now=now + ROTATION)
    assert is_alive(new, new_key, now=now + 2 * ROTATION)


def test_rotation_never_lengthens_a_key(acme: Project) -> None:
    end = timezone.now() + timedelta(hours=1)
    old, _ = api_keys.create(acme, expires_at=end)
    api_keys.rotate(old)
    assert ApiKey.objects.get(id=old.id).expires_at == end


def test_revoked_key_is_not_revived_by_rotating_it(acme: Project) -> None:
    old, old_key = api_keys.create(acme)
    api_keys.revoke(old)
    new, new_key = api_keys.rotate(old)
    assert not is_alive(old, old_key)
    assert is_alive(new, new_key)


@pytest.mark.parametrize("memory", MEMORY_SCOPES)
@pytest.mark.parametrize("subject", SUBJECT_SCOPES)
def test_memory_and_subject_scopes_never_mix(
    acme: Project, memory: str, subject: str
) -> None:
    """Refuse keys of both kinds: a misled agent must neither erase nor export."""
    for mixed in (
        [memory, subject],
        [subject, *MEMORY_SCOPES],
        [*SUBJECT_SCOPES, memory],
    ):
        with pytest.raises(InvalidError) as refusal:
            api_keys.create(acme, scopes=mixed)
        assert refusal.value.invalid_code == "scopes_mixed"
    assert not ApiKey.objects.exists()
    for one in (memory, subject):
        made, _ = api_keys.rotate(api_keys.create(acme, scopes=[one])[0])
        assert made.scopes == one


@pytest.mark.parametrize(
    "scopes",
    [[], ["memory:"], ["memory:read", "Memory:write"], ["*"], ["memory:read "], [""]],
)
def test_unknown_scope_is_refused(acme: Project, scopes: list[str]) -> None:
    with pytest.raises(InvalidError) as refusal:
        api_keys.create(acme, scopes=scopes)
    assert refusal.value.loc == "scopes"
    assert not ApiKey.objects.exists()


def test_scopes_are_stored_sorted_without_repeats(acme: Project) -> None:
    row, _ = api_keys.create(acme, scopes=["memory:write", "memory:read"] * 2)
    assert row.scopes == "memory:read memory:write"


def test_missing_row_matches_no_key(acme: Project) -> None:
    _, key = api_keys.create(acme)
    assert not api_keys.is_valid_key(None, key, now=timezone.now())


def test_rotated_key_keeps_its_expiry(acme: Project) -> None:
    end = timezone.now() + timedelta(days=30)
    old, _ = api_keys.create(acme, expires_at=end)
    new, _ = api_keys.rotate(old)
    assert ApiKey.objects.get(id=new.id).expires_at == end


def test_expired_key_is_not_rotated(acme: Project) -> None:
    old, _ = api_keys.create(acme, expires_at=timezone.now() + timedelta(days=1))
    ApiKey.objects.update(expires_at=timezone.now())
    old.refresh_from_db()
    with pytest.raises(InvalidError) as refusal:
        api_keys.rotate(old)
    assert refusal.value.invalid_code == "expiry_in_past"
    assert ApiKey.objects.count() == 1
