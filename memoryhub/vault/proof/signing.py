"""Signing: one Ed25519 key at a time; what an older one signed stays provable.

Private halves are stored wrapped, like every key. Public halves are kept for ever, in
the keys database and beside the ledger: a restored database knows no newer ones. Each
is vouched for by the key before it, back to the root: only the root's private half,
which the ring opens, is taken at its word.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import structlog
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from django.conf import settings
from django.db import transaction

from memoryhub.errors import (
    KeyMissingError,
    LedgerBrokenError,
    LedgerUnwritableError,
)
from memoryhub.models.keys import KeyMeta, SigningKey
from memoryhub.models.server.clock import clock
from memoryhub.models.server.ids import uuid7
from memoryhub.vault.keys import keyring, ring_file
from memoryhub.vault.keys.wrapping import KeyPurpose, unwrap, wrap

log = structlog.get_logger()

FORMAT: Final = "memoryhub.public-keys/2"
FILE: Final = "public-keys.json"
KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """The key that signs what is signed now."""

    key_id: str
    #: Fingerprint of the key that all others lead back to.
    root: str
    _key: Ed25519PrivateKey = field(repr=False)

    @property
    def public(self) -> bytes:
        return self._key.public_key().public_bytes_raw()

    def sign(self, data: bytes) -> bytes:
        return self._key.sign(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endorsed:
    """A public key, and who vouches for it: the one before; for the root itself."""

    public: bytes
    by: str
    #: The endorser's signature over id and public half.
    sig: bytes


def current() -> Signer:
    """Return the key in force; the first one is made when it is asked for.

    One query.
    """
    rows = _rows()
    return _signer(rows) if rows else _made(at=clock.now(), first=True)


def rotate(*, at: datetime) -> Signer:
    """Sign with a new key from now on, which the old one vouches for.

    Raises LedgerBrokenError when the list of keys is not as it should be.
    """
    return _made(at=at, first=False)


def public_keys() -> dict[str, bytes]:
    """Return every public half that leads back to the root, by key id; no other is one.

    One query and one small file. Raises LedgerBrokenError when that file is none of
    ours.
    """
    return {key_id: each.public for key_id, each in entries().items()}


def entries() -> dict[str, Endorsed]:
    """Return `public_keys` with what vouches for each."""
    return _endorsed_keys(_rows(), _filed())


def check() -> None:
    """See that the list beside the ledger is just what leads back to the root.

    Raises LedgerBrokenError with the first key that does not, or that it lacks.
    """
    rows, filed = _rows(), _filed()
    stored, endorsed = _stored(rows), _endorsed_keys(rows, filed)
    for key_id in sorted({*stored, *filed}):
        good = endorsed.get(key_id)
        if filed.get(key_id) != good or stored.get(key_id, good) != good:
            raise LedgerBrokenError(file=FILE, key=key_id)
    if filed and _path().read_bytes() != encoded(filed):
        raise LedgerBrokenError(file=FILE)


def prepare() -> None:
    """Make the first key, and a list of those that are known if it was lost.

    Raises LedgerBrokenError as `check`, and LedgerUnwritableError.
    """
    current()
    rows, filed = _rows(), _filed()
    endorsed = _endorsed_keys(rows, filed)
    if lacking := endorsed.keys() - filed.keys():
        log.warning("public_keys.restored", count=len(lacking))
        _file({**filed, **endorsed}, draft=str(uuid7()))
    check()


def fingerprint(public: bytes) -> str:
    """Return the SHA-256 in hex by which people compare a public key."""
    return hashlib.sha256(public).hexdigest()


def verify(key_id: str, data: bytes, sig: bytes, keys: Mapping[str, bytes]) -> bool:
    """Return whether the key of this id, one of `keys`, signed these bytes."""
    public = keys.get(key_id)
    if public is None or len(public) != KEY_BYTES or len(sig) != SIGNATURE_BYTES:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(sig, data)
    except InvalidSignature:
        return False
    return True


def shape(keys: Mapping[str, Endorsed]) -> dict[str, Any]:
    """Return public keys as JSON values, with the fingerprint of their root."""
    roots = [each.public for key_id, each in keys.items() if each.by == key_id]
    listed = {
        key_id: {"public": each.public.hex(), "by": each.by, "sig": each.sig.hex()}
        for key_id, each in sorted(keys.items())
    }
    root = fingerprint(roots[0]) if roots else None
    return {"format": FORMAT, "root": root, "keys": listed}


def encoded(keys: Mapping[str, Endorsed]) -> bytes:
    """Encode public keys as the JSON text that `receipt verify --pub` takes."""
    return json.dumps(shape(keys), indent=1).encode() + b"\n"


def decoded(data: bytes) -> dict[str, bytes]:
    """Decode the keys of such a text, which lead back to one root.

    Raises ValueError, quoting nothing of it but the id of a key that does not.
    """
    found, root = _parsed(data)
    roots = [i for i, key in found.items() if key.by == i]
    if len(roots) != 1 or fingerprint(found[roots[0]].public) != root:
        raise ValueError("these are no public keys of one root")
    led_to = _leading_to(found, roots[0])
    if strangers := sorted(found.keys() - led_to.keys()):
        raise ValueError(f"no key among them vouches for {strangers[0]}")
    return {key_id: each.public for key_id, each in led_to.items()}


def _parsed(data: bytes) -> tuple[dict[str, Endorsed], object]:
    """What such a text says, believed or not, and its root."""
    try:
        document = json.loads(data)
        found = {
            str(UUID(key_id)): Endorsed(
                public=bytes.fromhex(key["public"]),
                by=str(UUID(key["by"])),
                sig=bytes.fromhex(key["sig"]),
            )
            for key_id, key in document["keys"].items()
        }
        right_format, root = document["format"] == FORMAT, document["root"]
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        raise ValueError("these are no public keys") from None
    if not right_format or any(len(key.public) != KEY_BYTES for key in found.values()):
        raise ValueError(f"these are no public keys of {FORMAT}")
    return found, root


def _statement(key_id: str, public: bytes) -> bytes:
    """What an endorser signs; no line and no receipt begins like it."""
    return f"memoryhub.public-key/1|{key_id}|{public.hex()}".encode()


def _leading_to(found: Mapping[str, Endorsed], root: str) -> dict[str, Endorsed]:
    """Those that the root vouches for, or one that it does, and so on."""
    led: dict[str, Endorsed] = {}
    publics = {root: found[root].public}
    while more := {
        key_id: each
        for key_id, each in found.items()
        if key_id not in led
        and verify(each.by, _statement(key_id, each.public), each.sig, publics)
    }:
        led |= more
        publics |= {key_id: each.public for key_id, each in more.items()}
    return led


def _made(*, at: datetime, first: bool) -> Signer:
    with transaction.atomic(using="keys"):
        # Of two processes that start to sign at once, the second takes the first's.
        KeyMeta.objects.using("keys").select_for_update().get(id=1)
        rows = _rows()
        if first and rows:
            return _signer(rows)
        # Nobody vouches for a key in a list that others have changed; and where there
        # is a list, and no root, the keys database is not the one that made it.
        check()
        key, key_id = Ed25519PrivateKey.generate(), uuid7()
        signer, made = _endorsed(key, str(key_id), rows)
        # The file first: nothing is signed by a key that only one database knows.
        _file({**_filed(), signer.key_id: made}, draft=signer.key_id)
        SigningKey.objects.using("keys").filter(retired_at=None).update(retired_at=at)
        kek, raw = keyring.ring().current, key.private_bytes_raw()
        SigningKey.objects.using("keys").create(
            id=key_id,
            public=made.public,
            endorser=made.by,
            endorsement=made.sig,
            kek_id=kek.id,
            wrapped=wrap(kek, raw, purpose=KeyPurpose.SIGNING, owner=key_id),
            created_at=at,
        )
    return signer


def _endorsed(
    key: Ed25519PrivateKey, key_id: str, rows: Sequence[SigningKey]
) -> tuple[Signer, Endorsed]:
    """A new key, vouched for by the one in force; the first one by itself."""
    public = key.public_key().public_bytes_raw()
    root = fingerprint(_root(rows)[1] if rows else public)
    signer = Signer(key_id=key_id, root=root, _key=key)
    by = _signer(rows) if rows else signer
    sig = by.sign(_statement(key_id, public))
    return signer, Endorsed(public=public, by=by.key_id, sig=sig)


def _rows() -> list[SigningKey]:
    """Every key that was made, oldest first."""
    rows = SigningKey.objects.using("keys")
    return list(rows.order_by("created_at", "id"))


def _signer(rows: Sequence[SigningKey]) -> Signer:
    """The newest one that is in force. Raises KeyMissingError."""
    row = [row for row in rows if row.retired_at is None][-1]
    root = fingerprint(_root(rows)[1])
    return Signer(key_id=str(row.id), root=root, _key=_private(row))


def _root(rows: Sequence[SigningKey]) -> tuple[str, bytes]:
    """The first key's id and public half, as its private one tells it.

    Raises LedgerBrokenError when there is none, and KeyMissingError.
    """
    for row in rows:
        if row.endorser == row.id:
            return str(row.id), _private(row).public_key().public_bytes_raw()
    raise LedgerBrokenError(file=FILE)


def _private(row: SigningKey) -> Ed25519PrivateKey:
    kek = keyring.kek(row.kek_id)
    key = unwrap(kek, bytes(row.wrapped), purpose=KeyPurpose.SIGNING, owner=row.id)
    return Ed25519PrivateKey.from_private_bytes(key)


def _stored(rows: Sequence[SigningKey]) -> dict[str, Endorsed]:
    return {
        str(row.id): Endorsed(
            public=bytes(row.public),
            by=str(row.endorser),
            sig=bytes(row.endorsement),
        )
        for row in rows
    }


def _endorsed_keys(
    rows: Sequence[SigningKey], filed: Mapping[str, Endorsed]
) -> dict[str, Endorsed]:
    """What leads back to the root of the keys database, of both lists."""
    if not rows:
        return {}
    try:
        root, public = _root(rows)
    except KeyMissingError:
        raise LedgerBrokenError(file=FILE) from None
    found = {**filed, **_stored(rows)}
    return _leading_to(found, root) if found[root].public == public else {}


def _path() -> Path:
    folder: Path = settings.LEDGER
    return folder / FILE


def _filed() -> dict[str, Endorsed]:
    try:
        return _parsed(_path().read_bytes())[0]
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        raise LedgerBrokenError(file=FILE) from None


def _file(keys: Mapping[str, Endorsed], *, draft: str) -> None:
    path = _path()
    written = path.with_name(f"{path.name}.{draft}.new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        ring_file.write_new(written, encoded(keys))
        written.replace(path)
        ring_file.sync_folder(path.parent)
    except OSError as failure:
        raise LedgerUnwritableError from failure
