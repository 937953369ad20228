from __future__ import annotations

import os
from uuid import uuid4

import pytest

from memoryhub.errors import KeyMissingError
from memoryhub.vault.keys.ring_file import Kek, make_kek
from memoryhub.vault.keys.wrapping import KeyPurpose, unwrap, wrap


def test_wrapped_key_is_sixty_bytes_and_opens_for_its_owner_only() -> None:
    kek, owner, key = make_kek(), uuid4(), os.urandom(32)
    wrapped = wrap(kek, key, purpose=KeyPurpose.SUBJECT, owner=owner)
    assert len(wrapped) == 60
    assert key not in wrapped
    assert unwrap(kek, wrapped, purpose=KeyPurpose.SUBJECT, owner=owner) == key


@pytest.mark.parametrize("other", ["kek", "kek id", "kind", "owner"])
def test_wrapped_key_does_not_open_for_another_owner_or_kek(other: str) -> None:
    kek, owner = make_kek(), uuid4()
    wrapped = wrap(kek, os.urandom(32), purpose=KeyPurpose.SUBJECT, owner=owner)
    if other == "kek":
        kek = Kek(id=kek.id, key=os.urandom(32))
    if other == "kek id":
        kek = Kek(id="00000000", key=kek.key)
    kind = KeyPurpose.PROJECT if other == "kind" else KeyPurpose.SUBJECT
    with pytest.raises(KeyMissingError):
        unwrap(kek, wrapped, purpose=kind, owner=uuid4() if other == "owner" else owner)


def test_damaged_bytes_do_not_open_wherever_the_damage_is() -> None:
    kek, owner = make_kek(), uuid4()
    wrapped = wrap(kek, os.urandom(32), purpose=KeyPurpose.PROJECT, owner=owner)
    damaged = [
        wrapped[:at] + bytes([wrapped[at] ^ 1]) + wrapped[at + 1 :] for at in range(60)
    ]
    for sealed in [*damaged, b"", wrapped[:12], wrapped[:-1], wrapped + b"\0"]:
        with pytest.raises(KeyMissingError):
            unwrap(kek, sealed, purpose=KeyPurpose.PROJECT, owner=owner)


def test_wrapping_twice_never_gives_the_same_bytes() -> None:
    kek, owner, key = make_kek(), uuid4(), os.urandom(32)
    first = wrap(kek, key, purpose=KeyPurpose.SIGNING, owner=owner)
    assert wrap(kek, key, purpose=KeyPurpose.SIGNING, owner=owner) != first
