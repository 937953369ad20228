"""Signing: one Ed25519 key at a time; what an older one signed stays provable.

Private halves are stored wrapped, like every key. Public halves are kept for ever, in
the keys database and beside the ledger: a restored database knows no newer ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final
from uuid import UUID

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from django.conf import settings
from django.db import transaction

from memoryhub.errors import LedgerBrokenError, LedgerUnwritableError
from memoryhub.models.clock import clock
from memoryhub.models.ids import uuid7
from memoryhub.models.keys import KeyMeta, SigningKey
from memoryhub.vault import keyring, ring_file
from memoryhub.vault.wrapping import Kind, unwrap, wrap

FORMAT: Final = "memoryhub.public-keys/1"
KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """The key that signs what is signed now."""

    key_id: str
    _key: Ed25519PrivateKey = field(repr=False)

    @property
    def public(self) -> bytes:
        return self._key.public_key().public_bytes_raw()

    def sign(self, data: bytes) -> bytes:
        return self._key.sign(data)


def current() -> Signer:
    """The key in force; the first one is made when it is asked for. One query."""
    row = _newest()
    return _opened(row) if row else _made(at=clock.now(), first=True)


def rotate(*, at: datetime) -> Signer:
    """Sign with a new key from now on; the old one's private half goes nowhere."""
    return _made(at=at, first=False)


def public_keys() -> dict[str, bytes]:
    """Every public half there ever was, by key id. One query and one small file.

    Raises LedgerBrokenError when that file is none of ours.
    """
    rows = SigningKey.objects.using("keys").values_list("id", "public")
    stored = {str(key_id): bytes(public) for key_id, public in rows}
    return {**_filed(), **stored}


def verify(key_id: str, data: bytes, sig: bytes, keys: Mapping[str, bytes]) -> bool:
    """Whether the key of this id, which must be among `keys`, signed these bytes."""
    public = keys.get(key_id)
    if public is None or len(public) != KEY_BYTES or len(sig) != SIGNATURE_BYTES:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(sig, data)
    except InvalidSignature:
        return False
    return True


def encoded(keys: Mapping[str, bytes]) -> bytes:
    """Public keys as the JSON text that `receipt verify --pub` takes."""
    shape = {
        "format": FORMAT,
        "keys": {key_id: keys[key_id].hex() for key_id in sorted(keys)},
    }
    return json.dumps(shape, indent=1).encode() + b"\n"


def decoded(data: bytes) -> dict[str, bytes]:
    """The keys of such a text. Raises ValueError, quoting nothing of it."""
    try:
        shape = json.loads(data)
        found = {str(UUID(i)): bytes.fromhex(k) for i, k in shape["keys"].items()}
        known = shape["format"] == FORMAT
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        raise ValueError("these are no public keys") from None
    if not known or any(len(key) != KEY_BYTES for key in found.values()):
        raise ValueError(f"these are no public keys of {FORMAT}")
    return found


def _made(*, at: datetime, first: bool) -> Signer:
    with transaction.atomic(using="keys"):
        # Of two processes that start to sign at once, the second takes the first's.
        KeyMeta.objects.using("keys").select_for_update().get(id=1)
        if first and (row := _newest()):
            return _opened(row)
        key, kek, key_id = (
            Ed25519PrivateKey.generate(),
            keyring.ring().current,
            uuid7(),
        )
        signer = Signer(key_id=str(key_id), _key=key)
        # The file first: nothing is signed by a key that only one database knows.
        _file(signer)
        SigningKey.objects.using("keys").filter(retired_at=None).update(retired_at=at)
        SigningKey.objects.using("keys").create(
            id=key_id,
            public=signer.public,
            kek_id=kek.id,
            wrapped=wrap(kek, key.private_bytes_raw(), kind=Kind.SIGNING, owner=key_id),
            created_at=at,
        )
    return signer


def _newest() -> SigningKey | None:
    rows = SigningKey.objects.using("keys").filter(retired_at=None)
    return rows.order_by("created_at", "id").last()


def _opened(row: SigningKey) -> Signer:
    kek = keyring.kek(row.kek_id)
    key = unwrap(kek, bytes(row.wrapped), kind=Kind.SIGNING, owner=row.id)
    return Signer(key_id=str(row.id), _key=Ed25519PrivateKey.from_private_bytes(key))


def _path() -> Path:
    folder: Path = settings.LEDGER
    return folder / "public-keys.json"


def _filed() -> dict[str, bytes]:
    try:
        return decoded(_path().read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        raise LedgerBrokenError(file=_path().name) from None


def _file(signer: Signer) -> None:
    keys = {**public_keys(), signer.key_id: signer.public}
    path = _path()
    draft = path.with_name(f"{path.name}.{signer.key_id}.new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        ring_file.write_new(draft, encoded(keys))
        draft.replace(path)
        ring_file.sync_folder(path.parent)
    except OSError as failure:
        raise LedgerUnwritableError from failure
