"""Backups of the KEK ring: the ring sealed under a passphrase, as one JSON file.

The key is derived from the passphrase by scrypt (RFC 7914), N = 2^17, r = 8, p = 1.
"""

from __future__ import annotations

import json
import os
from datetime import datetime
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from memoryhub.models.keys import KekCheck
from memoryhub.vault.keys import ring_file
from memoryhub.vault.keys.ring_file import Ring, RingRefusedError

FORMAT: Final = "memoryhub.kek-backup/1"
MIN_PASSPHRASE: Final = 12
_SALT_BYTES: Final = 16
_NONCE_BYTES: Final = 12


def seal_ring(ring: Ring, *, passphrase: str) -> bytes:
    """Seal a ring under a passphrase. Takes about half a second and 128 MiB."""
    if len(passphrase) < MIN_PASSPHRASE:
        raise RingRefusedError(
            f"passphrase: it must have at least {MIN_PASSPHRASE} characters"
        )
    salt, nonce = os.urandom(_SALT_BYTES), os.urandom(_NONCE_BYTES)
    cipher = _derive_cipher(passphrase, salt)
    shape = {
        "format": FORMAT,
        "kdf": "scrypt N=131072 r=8 p=1",
        "salt": salt.hex(),
        "nonce": nonce.hex(),
        "sealed": cipher.encrypt(
            nonce, ring_file.encode_ring(ring), FORMAT.encode()
        ).hex(),
    }
    return json.dumps(shape, indent=1).encode() + b"\n"


def open_ring(data: bytes, *, passphrase: str) -> Ring:
    """Open the ring of a backup. Raises RingRefusedError."""
    try:
        shape = json.loads(data)
        found = shape["format"]
        parts = [bytes.fromhex(shape[name]) for name in ("salt", "nonce", "sealed")]
    except (ValueError, RecursionError, KeyError, TypeError):
        raise RingRefusedError("backup: this is not a backup of a key ring") from None
    if found != FORMAT:
        raise RingRefusedError(f"backup: its format is not {FORMAT}")
    salt, nonce, box = parts
    if len(salt) != _SALT_BYTES or len(nonce) != _NONCE_BYTES:
        raise RingRefusedError("backup: the file is damaged")
    try:
        plain = _derive_cipher(passphrase, salt).decrypt(nonce, box, FORMAT.encode())
    except InvalidTag:
        raise RingRefusedError(
            "backup: the passphrase is wrong or the file is damaged"
        ) from None
    return ring_file.decode_ring(plain)


def record(ring: Ring, *, at: datetime) -> None:
    """Record that every key of this ring has a backup."""
    KekCheck.objects.using("keys").filter(kek_id__in=ring.ids).update(backed_up_at=at)


def _derive_cipher(passphrase: str, salt: bytes) -> AESGCM:
    # The parameters are fixed by the format: a file can not ask for gigabytes.
    derivation = Scrypt(salt=salt, length=32, n=1 << 17, r=8, p=1)
    return AESGCM(derivation.derive(passphrase.encode()))
