"""Signing keys: made once, rotated, wrapped like every key, provable for ever."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.conf import settings
from django.db import connections

from memoryhub.errors import KeyMissingError, LedgerBrokenError
from memoryhub.models.clock import clock
from memoryhub.models.keys import SigningKey
from memoryhub.vault import keyring, rotation, signing
from tests.promises.damages import flipped

UUID4 = b"00000000-0000-4000-8000-000000000000"

pytestmark = pytest.mark.django_db


def test_the_first_key_is_made_when_something_is_signed() -> None:
    assert not SigningKey.objects.using("keys").exists()
    first = signing.current()
    assert signing.current().key_id == first.key_id
    assert signing.public_keys() == {first.key_id: first.public}
    assert "PrivateKey" not in repr(first)


@pytest.mark.django_db(transaction=True)
def test_two_that_start_at_once_sign_with_one_key() -> None:
    def key_id(_: int) -> str:
        try:
            return signing.current().key_id
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(key_id, range(4)))) == 1


def test_a_signature_is_of_one_text_by_one_key() -> None:
    signer = signing.current()
    keys, sig = signing.public_keys(), signer.sign(b"text")
    assert signing.verify(signer.key_id, b"text", sig, keys)
    chance = random.Random(1)  # a seed repeats it
    for _ in range(200):
        assert not signing.verify(signer.key_id, flipped(b"text", chance), sig, keys)
        assert not signing.verify(signer.key_id, b"text", flipped(sig, chance), keys)
    other = signing.rotate(at=clock.now())
    keys = signing.public_keys()
    assert not signing.verify(other.key_id, b"text", sig, keys)
    assert not signing.verify("another", b"text", sig, keys)
    assert not signing.verify(signer.key_id, b"text", sig[:-1], keys)


def test_after_a_rotation_the_old_one_stays_provable() -> None:
    old = signing.current()
    sig = old.sign(b"text")
    new = signing.rotate(at=clock.now())
    assert new.key_id != old.key_id
    assert signing.current().key_id == new.key_id
    assert signing.verify(old.key_id, b"text", sig, signing.public_keys())
    assert set(signing.public_keys()) == {old.key_id, new.key_id}


def test_a_restored_keys_database_still_knows_newer_public_keys() -> None:
    signer = signing.current()
    sig = signer.sign(b"text")
    SigningKey.objects.using("keys").all().delete()
    assert signing.verify(signer.key_id, b"text", sig, signing.public_keys())
    # It goes on with a key of its own, and forgets none.
    again = signing.current()
    assert set(signing.public_keys()) == {signer.key_id, again.key_id}
    SigningKey.objects.using("keys").all().delete()
    assert set(signing.public_keys()) == {signer.key_id, again.key_id}


def test_the_private_half_is_wrapped_and_goes_along_with_a_rotated_ring() -> None:
    signer = signing.current()
    row = SigningKey.objects.using("keys").get()
    assert len(bytes(row.wrapped)) == 60
    kek_id, new = rotation.begin(at=clock.now())
    assert new
    while rotation.step():
        pass
    row.refresh_from_db()
    assert row.kek_id == kek_id
    assert signing.current() == signer or signing.current().public == signer.public


def test_a_damaged_key_does_not_open() -> None:
    signing.current()
    row = SigningKey.objects.using("keys").get()
    row.wrapped = bytes(row.wrapped)[:-1] + b"x"
    row.save(update_fields=["wrapped"])
    with pytest.raises(KeyMissingError):
        signing.current()


def test_a_key_that_can_not_be_published_is_none() -> None:
    settings.LEDGER.write_text("a file where the folder would be")
    with pytest.raises(LedgerBrokenError):
        signing.current()
    assert not SigningKey.objects.using("keys").exists()


def test_a_damaged_list_of_keys_is_not_taken_for_an_empty_one() -> None:
    signing.current()
    (settings.LEDGER / "public-keys.json").write_text("{}")
    with pytest.raises(LedgerBrokenError):
        signing.public_keys()
    with pytest.raises(LedgerBrokenError):
        signing.rotate(at=clock.now())
    assert SigningKey.objects.using("keys").get().retired_at is None


def test_public_keys_are_read_as_they_were_written() -> None:
    keys = {signing.current().key_id: signing.current().public}
    assert signing.decoded(signing.encoded(keys)) == keys


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b'{"format":"memoryhub.public-keys/1","keys":[]}',
        b'{"format":"memoryhub.public-keys/1","keys":{"x":"ab"}}',
        b'{"format":"memoryhub.public-keys/2","keys":{}}',
        b'{"format":"memoryhub.public-keys/1","keys":{"%s":"ab"}}' % UUID4,
    ],
)
def test_what_is_no_list_of_keys_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="no public keys"):
        signing.decoded(text)


def test_the_ring_is_what_opens_it() -> None:
    signing.current()
    assert keyring.rows_per_kek()[keyring.ring().current_id] >= 1
