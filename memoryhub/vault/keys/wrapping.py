"""Wrapping: sealing a key under a key-encryption key (KEK) for storage.

Wrapped = nonce 12, then AES-256-GCM(KEK, key, purpose and owner).
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
    """Purpose of a wrapped key, to which the wrapping is bound."""

    PROJECT = "project"
    SUBJECT = "subject"
    SIGNING = "signing"
    #: No key, but the hash of a line, which only a process with the ring can write.
    LINE = "line"
    FACTOR = "factor"
    WEBHOOK = "webhook"
    CHECK = "check"


def wrap(kek: Kek, key: bytes, *, purpose: KeyPurpose, owner: object) -> bytes:
    """Seal a key under a KEK, bound to purpose and owner: 28 bytes longer."""
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(kek.key).encrypt(
        nonce, key, _build_binding(kek, purpose, owner)
    )


def unwrap(kek: Kek, wrapped: bytes, *, purpose: KeyPurpose, owner: object) -> bytes:
    """Open a wrapped key.

    Raises KeyMissingError when the bytes do not open: a damaged key is a lost key, and
    a good backup of the keys database brings it back.
    """
    nonce, sealed = wrapped[:_NONCE_BYTES], wrapped[_NONCE_BYTES:]
    try:
        return AESGCM(kek.key).decrypt(
            nonce, sealed, _build_binding(kek, purpose, owner)
        )
    except (InvalidTag, ValueError):
        raise KeyMissingError(kek_id=kek.id) from None


def _build_binding(kek: Kek, purpose: KeyPurpose, owner: object) -> bytes:
    return f"mh1|wrap|{purpose}|{owner}|{kek.id}".encode()
