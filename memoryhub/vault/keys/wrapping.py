"""Wrapping: how a key is stored under a key-encryption key.

Wrapped = nonce 12, then AES-256-GCM(KEK, key, what it is and whose).
"""

from __future__ import annotations

import os
from enum import StrEnum

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from memoryhub.errors import KeyMissingError
from memoryhub.vault.keys.ring_file import Kek

_NONCE_BYTES = 12


class KeyPurpose(StrEnum):
    """What a wrapped key is for; part of what it is bound to."""

    PROJECT = "project"
    SUBJECT = "subject"
    SIGNING = "signing"
    #: No key, but the hash of a line, which nobody without the ring can put there.
    LINE = "line"
    FACTOR = "factor"
    CHECK = "check"


def wrap(kek: Kek, key: bytes, *, purpose: KeyPurpose, owner: object) -> bytes:
    """Seal the key under the KEK, bound to its owner: 28 bytes longer."""
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(kek.key).encrypt(nonce, key, _bound_to(kek, purpose, owner))


def unwrap(kek: Kek, wrapped: bytes, *, purpose: KeyPurpose, owner: object) -> bytes:
    """Open the key in these bytes.

    Raises KeyMissingError when they do not open: a damaged key is a lost one, and
    a good backup of the keys database brings it back.
    """
    nonce, sealed = wrapped[:_NONCE_BYTES], wrapped[_NONCE_BYTES:]
    try:
        return AESGCM(kek.key).decrypt(nonce, sealed, _bound_to(kek, purpose, owner))
    except (InvalidTag, ValueError):
        raise KeyMissingError(kek_id=kek.id) from None


def _bound_to(kek: Kek, purpose: KeyPurpose, owner: object) -> bytes:
    return f"mh1|wrap|{purpose}|{owner}|{kek.id}".encode()
