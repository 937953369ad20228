"""Signing keys: made once, rotated, wrapped like every key, provable for ever."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID, uuid4

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings
from django.db import connections

from memoryhub.errors import KeyMissingError, LedgerBrokenError
from memoryhub.models.keys import SigningKey
from memoryhub.models.server.clock import clock
from memoryhub.vault.keys import keyring, rotation
from memoryhub.vault.keys.ring_file import Ring
from memoryhub.vault.proof import signing
from tests.promises.tampering.damages import flipped

UUID4 = b"00000000-0000-4000-8000-000000000000"

pytestmark = pytest.mark.django_db


def test_first_key_is_made_when_something_is_signed() -> None:
    assert not SigningKey.objects.using("keys").exists()
    first = signing.get_signer()
    assert signing.get_signer().key_id == first.key_id
    assert signing.list_public_keys() == {first.key_id: first.public}
    assert "PrivateKey" not in repr(first)


@pytest.mark.django_db(transaction=True)
def test_concurrent_starts_sign_with_one_key() -> None:
    def key_id(_: int) -> str:
        try:
            return signing.get_signer().key_id
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(key_id, range(4)))) == 1


def test_signature_is_of_one_text_by_one_key() -> None:
    signer = signing.get_signer()
    keys, sig = signing.list_public_keys(), signer.sign(b"text")
    assert signing.is_signed(signer.key_id, b"text", sig, keys)
    chance = random.Random(1)  # a seed repeats it
    for _ in range(200):
        assert not signing.is_signed(signer.key_id, flipped(b"text", chance), sig, keys)
        assert not signing.is_signed(signer.key_id, b"text", flipped(sig, chance), keys)
    other = signing.rotate(at=clock.now())
    keys = signing.list_public_keys()
    assert not signing.is_signed(other.key_id, b"text", sig, keys)
    assert not signing.is_signed("another", b"text", sig, keys)
    assert not signing.is_signed(signer.key_id, b"text", sig[:-1], keys)


def test_old_signing_key_stays_provable_after_rotation() -> None:
    old = signing.get_signer()
    sig = old.sign(b"text")
    new = signing.rotate(at=clock.now())
    assert new.key_id != old.key_id
    assert signing.get_signer().key_id == new.key_id
    assert signing.is_signed(old.key_id, b"text", sig, signing.list_public_keys())
    assert set(signing.list_public_keys()) == {old.key_id, new.key_id}


def test_restored_keys_database_still_knows_newer_public_keys() -> None:
    root = signing.get_signer()
    signer = signing.rotate(at=clock.now())
    sig = signer.sign(b"text")
    keys = SigningKey.objects.using("keys")
    keys.filter(id=signer.key_id).delete()
    keys.update(retired_at=None)
    assert signing.is_signed(signer.key_id, b"text", sig, signing.list_public_keys())
    # It goes on with the one it has, which vouches for the next, and forgets none.
    assert signing.get_signer().key_id == root.key_id
    again = signing.rotate(at=clock.now())
    assert set(signing.list_public_keys()) == {root.key_id, signer.key_id, again.key_id}
    signing.check()


def test_signing_makes_no_second_root_beside_a_key_list() -> None:
    signing.get_signer()
    SigningKey.objects.using("keys").all().delete()
    with pytest.raises(LedgerBrokenError):
        signing.get_signer()
    assert signing.list_public_keys() == {}


def test_lost_key_list_is_written_again_at_start() -> None:
    signing.get_signer()
    signing.rotate(at=clock.now())
    path = settings.LEDGER / signing.FILE
    whole = path.read_bytes()
    path.unlink()
    with pytest.raises(LedgerBrokenError):
        signing.check()
    signing.prepare()
    assert path.read_bytes() == whole


def change_key_list(edit: Callable[[dict[str, Any]], Any]) -> None:
    """Change the key list as a writer of the ledger's folder does."""
    path = settings.LEDGER / signing.FILE
    document = json.loads(path.read_bytes())
    edit(document["keys"])
    path.write_bytes(json.dumps(document, indent=1).encode() + b"\n")


def build_entry(key: Ed25519PrivateKey, key_id: str, *, by: str) -> dict[str, str]:
    """Return the list's entry for a key that endorses itself."""
    public = key.public_key().public_bytes_raw()
    sig = key.sign(f"memoryhub.public-key/1|{key_id}|{public.hex()}".encode())
    return {"public": public.hex(), "by": by, "sig": sig.hex()}


@pytest.mark.parametrize("vouched", ["root", "itself"])
def test_unendorsed_key_is_reported_and_unused(vouched: str) -> None:
    root, own, key_id = signing.get_signer(), Ed25519PrivateKey.generate(), str(uuid4())
    signing.rotate(at=clock.now())
    before, text = (
        signing.list_public_keys(),
        (settings.LEDGER / signing.FILE).read_bytes(),
    )
    by = root.key_id if vouched == "root" else key_id
    change_key_list(lambda keys: keys.update({key_id: build_entry(own, key_id, by=by)}))
    assert signing.list_public_keys() == before
    with pytest.raises(LedgerBrokenError) as broken:
        signing.check()
    assert broken.value.detail == {"file": "public-keys.json", "key": key_id}
    # And nobody vouches for it by going on.
    with pytest.raises(LedgerBrokenError):
        signing.rotate(at=clock.now())
    with pytest.raises(ValueError, match=r"vouches for|of one root"):
        signing.decode_keys((settings.LEDGER / signing.FILE).read_bytes())
    (settings.LEDGER / signing.FILE).write_bytes(text)
    signing.check()


def test_foreign_key_under_a_known_id_is_reported_and_unused() -> None:
    key_id, own = signing.get_signer().key_id, Ed25519PrivateKey.generate()
    before = signing.list_public_keys()
    change_key_list(
        lambda keys: keys.update({key_id: build_entry(own, key_id, by=key_id)})
    )
    assert signing.list_public_keys() == before
    with pytest.raises(LedgerBrokenError):
        signing.check()


def test_root_key_that_the_ring_cannot_open_is_refused() -> None:
    """A forger who can write both, but has no ring, makes no key that counts."""
    signing.get_signer()
    own, key_id = Ed25519PrivateKey.generate(), str(uuid4())
    forged = build_entry(own, key_id, by=key_id)
    row = SigningKey.objects.using("keys").get()
    row.id, row.endorser = UUID(key_id), UUID(key_id)
    row.public = bytes.fromhex(forged["public"])
    row.endorsement = bytes.fromhex(forged["sig"])
    row.save(force_insert=True)
    change_key_list(lambda keys: keys.update({key_id: forged}))
    assert key_id not in signing.list_public_keys()
    SigningKey.objects.using("keys").exclude(id=key_id).delete()
    for look in (signing.list_public_keys, signing.check):
        with pytest.raises(LedgerBrokenError):
            look()


def test_private_key_is_wrapped_and_rewrapped_by_a_rotation(
    ring: Ring,
) -> None:
    signer = signing.get_signer()
    row = SigningKey.objects.using("keys").get()
    assert len(bytes(row.wrapped)) == 60
    kek_id, new = rotation.begin(at=clock.now())
    assert new
    while rotation.step():
        pass
    row.refresh_from_db()
    assert row.kek_id == kek_id
    assert (
        signing.get_signer() == signer or signing.get_signer().public == signer.public
    )


def test_damaged_key_does_not_open() -> None:
    signing.get_signer()
    row = SigningKey.objects.using("keys").get()
    sealed = bytes(row.wrapped)
    row.wrapped = sealed[:-1] + bytes([sealed[-1] ^ 1])
    row.save(update_fields=["wrapped"])
    with pytest.raises(KeyMissingError):
        signing.get_signer()


def test_signing_key_that_cannot_be_published_is_not_created() -> None:
    settings.LEDGER.write_text("a file where the folder would be")
    with pytest.raises(LedgerBrokenError):
        signing.get_signer()
    assert not SigningKey.objects.using("keys").exists()


def test_damaged_key_list_is_not_treated_as_empty() -> None:
    signing.get_signer()
    (settings.LEDGER / "public-keys.json").write_text("{}")
    with pytest.raises(LedgerBrokenError):
        signing.list_public_keys()
    with pytest.raises(LedgerBrokenError):
        signing.rotate(at=clock.now())
    assert SigningKey.objects.using("keys").get().retired_at is None


def test_public_keys_are_read_as_they_were_written() -> None:
    keys = {signing.get_signer().key_id: signing.get_signer().public}
    assert (
        signing.decode_keys(signing.encode_keys(signing.list_endorsed_keys())) == keys
    )


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b'{"format":"memoryhub.public-keys/2","keys":[]}',
        b'{"format":"memoryhub.public-keys/2","keys":{"x":"ab"}}',
        b'{"format":"memoryhub.public-keys/2","keys":{}}',
        b'{"format":"memoryhub.public-keys/2","keys":{"%s":"ab"}}' % UUID4,
    ],
)
def test_malformed_key_list_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="no public keys"):
        signing.decode_keys(text)


def test_signing_key_is_wrapped_by_the_ring() -> None:
    signing.get_signer()
    assert keyring.count_rows_per_kek()[keyring.get_ring().current_id] >= 1
