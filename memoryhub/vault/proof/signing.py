"""Signing: one Ed25519 key in force; signatures of older keys stay verifiable.

Private halves are stored wrapped, like every key. Public halves are kept for ever, in
the keys database and in a file beside the ledger, since a restored database knows no
newer keys. Each key is endorsed by the key before, back to the root. Only the root is
trusted without endorsement, because the ring opens its private half. See decision 19.
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
    """The signing key in force."""

    key_id: str
    #: Fingerprint of the root key, to which all endorsements lead back.
    root: str
    _key: Ed25519PrivateKey = field(repr=False)

    @property
    def public(self) -> bytes:
        return self._key.public_key().public_bytes_raw()

    def sign(self, data: bytes) -> bytes:
        return self._key.sign(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndorsedKey:
    """A public key, endorsed by the key before; the root endorses itself."""

    public: bytes
    by: str
    #: The endorser's signature over id and public half.
    sig: bytes


def get_signer() -> Signer:
    """Get the signing key in force; create the first key if there is none.

    One query.
    """
    rows = _list_rows()
    return _open_signer(rows) if rows else _create_signer(at=clock.now(), first=True)


def rotate(*, at: datetime) -> Signer:
    """Create a new signing key, endorsed by the key in force, and use it from now on.

    Raises LedgerBrokenError when `check` fails.
    """
    return _create_signer(at=at, first=False)


def list_public_keys() -> dict[str, bytes]:
    """List the public halves endorsed back to the root, by key id.

    One query and one small file. Raises LedgerBrokenError when the file is not ours.
    """
    return {key_id: each.public for key_id, each in list_endorsed_keys().items()}


def list_endorsed_keys() -> dict[str, EndorsedKey]:
    """List the public keys with their endorsements, by key id."""
    return _list_endorsed_keys(_list_rows(), _read_file())


def check() -> None:
    """Check that the file beside the ledger lists exactly the endorsed keys.

    Raises LedgerBrokenError with the first key that is not endorsed, or missing.
    """
    rows, filed = _list_rows(), _read_file()
    stored, endorsed = _build_stored_keys(rows), _list_endorsed_keys(rows, filed)
    for key_id in sorted({*stored, *filed}):
        good = endorsed.get(key_id)
        if filed.get(key_id) != good or stored.get(key_id, good) != good:
            raise LedgerBrokenError(file=FILE, key=key_id)
    if filed and _get_path().read_bytes() != encode_keys(filed):
        raise LedgerBrokenError(file=FILE)


def prepare() -> None:
    """Create the first key, and complete the file of public keys if it lacks any.

    Raises LedgerBrokenError as `check`, and LedgerUnwritableError.
    """
    get_signer()
    rows, filed = _list_rows(), _read_file()
    endorsed = _list_endorsed_keys(rows, filed)
    if lacking := endorsed.keys() - filed.keys():
        log.warning("public_keys.restored", count=len(lacking))
        _write_file({**filed, **endorsed}, draft=str(uuid7()))
    check()


def compute_fingerprint(public: bytes) -> str:
    """Compute the SHA-256 of a public key in hex, for comparison by people."""
    return hashlib.sha256(public).hexdigest()


def is_signed(key_id: str, data: bytes, sig: bytes, keys: Mapping[str, bytes]) -> bool:
    """Return whether the key with this id, out of `keys`, signed the data."""
    public = keys.get(key_id)
    if public is None or len(public) != KEY_BYTES or len(sig) != SIGNATURE_BYTES:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(sig, data)
    except InvalidSignature:
        return False
    return True


def to_json(keys: Mapping[str, EndorsedKey]) -> dict[str, Any]:
    """Convert public keys to JSON values, with the fingerprint of their root."""
    roots = [each.public for key_id, each in keys.items() if each.by == key_id]
    listed = {
        key_id: {"public": each.public.hex(), "by": each.by, "sig": each.sig.hex()}
        for key_id, each in sorted(keys.items())
    }
    root = compute_fingerprint(roots[0]) if roots else None
    return {"format": FORMAT, "root": root, "keys": listed}


def encode_keys(keys: Mapping[str, EndorsedKey]) -> bytes:
    """Encode public keys as the JSON text that `receipt verify --pub` takes."""
    return json.dumps(to_json(keys), indent=1).encode() + b"\n"


def decode_keys(data: bytes) -> dict[str, bytes]:
    """Decode a JSON text of public keys, all endorsed back to one root.

    Raises ValueError, whose text quotes at most the id of a key without endorsement.
    """
    found, root = _parse_keys(data)
    roots = [i for i, key in found.items() if key.by == i]
    if len(roots) != 1 or compute_fingerprint(found[roots[0]].public) != root:
        raise ValueError("these are no public keys of one root")
    led_to = _filter_endorsed(found, roots[0])
    if strangers := sorted(found.keys() - led_to.keys()):
        raise ValueError(f"no key among them vouches for {strangers[0]}")
    return {key_id: each.public for key_id, each in led_to.items()}


def _parse_keys(data: bytes) -> tuple[dict[str, EndorsedKey], object]:
    """Parse a JSON text of public keys and their root; check no endorsement."""
    try:
        document = json.loads(data)
        found = {
            str(UUID(key_id)): EndorsedKey(
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


def _build_statement(key_id: str, public: bytes) -> bytes:
    """Build the statement that an endorser signs, unlike any line or receipt."""
    return f"memoryhub.public-key/1|{key_id}|{public.hex()}".encode()


def _filter_endorsed(
    found: Mapping[str, EndorsedKey], root: str
) -> dict[str, EndorsedKey]:
    """Filter the keys that the root endorses, directly or through other keys."""
    led: dict[str, EndorsedKey] = {}
    publics = {root: found[root].public}
    while more := {
        key_id: each
        for key_id, each in found.items()
        if key_id not in led
        and is_signed(each.by, _build_statement(key_id, each.public), each.sig, publics)
    }:
        led |= more
        publics |= {key_id: each.public for key_id, each in more.items()}
    return led


def _create_signer(*, at: datetime, first: bool) -> Signer:
    with transaction.atomic(using="keys"):
        # If two processes start to sign at once, the second takes the first's key.
        KeyMeta.objects.using("keys").select_for_update().get(id=1)
        rows = _list_rows()
        if first and rows:
            return _open_signer(rows)
        # Endorse no key if the file was tampered with. A file without a root in the
        # keys database comes from another keys database.
        check()
        key, key_id = Ed25519PrivateKey.generate(), uuid7()
        signer, made = _endorse_key(key, str(key_id), rows)
        # Write the file first: no key signs that only one database knows.
        _write_file({**_read_file(), signer.key_id: made}, draft=signer.key_id)
        SigningKey.objects.using("keys").filter(retired_at=None).update(retired_at=at)
        kek, raw = keyring.get_ring().current, key.private_bytes_raw()
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


def _endorse_key(
    key: Ed25519PrivateKey, key_id: str, rows: Sequence[SigningKey]
) -> tuple[Signer, EndorsedKey]:
    """Endorse a new key with the key in force; the first key endorses itself."""
    public = key.public_key().public_bytes_raw()
    root = compute_fingerprint(_find_root(rows)[1] if rows else public)
    signer = Signer(key_id=key_id, root=root, _key=key)
    by = _open_signer(rows) if rows else signer
    sig = by.sign(_build_statement(key_id, public))
    return signer, EndorsedKey(public=public, by=by.key_id, sig=sig)


def _list_rows() -> list[SigningKey]:
    """List the rows of all signing keys, oldest first."""
    rows = SigningKey.objects.using("keys")
    return list(rows.order_by("created_at", "id"))


def _open_signer(rows: Sequence[SigningKey]) -> Signer:
    """Open the signing key in force. Raises KeyMissingError."""
    row = [row for row in rows if row.retired_at is None][-1]
    root = compute_fingerprint(_find_root(rows)[1])
    return Signer(key_id=str(row.id), root=root, _key=_open_private_key(row))


def _find_root(rows: Sequence[SigningKey]) -> tuple[str, bytes]:
    """Return the root key's id, and its public half derived from the private half.

    Raises LedgerBrokenError when there is no root, and KeyMissingError.
    """
    for row in rows:
        if row.endorser == row.id:
            return str(row.id), _open_private_key(row).public_key().public_bytes_raw()
    raise LedgerBrokenError(file=FILE)


def _open_private_key(row: SigningKey) -> Ed25519PrivateKey:
    kek = keyring.get_kek(row.kek_id)
    key = unwrap(kek, bytes(row.wrapped), purpose=KeyPurpose.SIGNING, owner=row.id)
    return Ed25519PrivateKey.from_private_bytes(key)


def _build_stored_keys(rows: Sequence[SigningKey]) -> dict[str, EndorsedKey]:
    return {
        str(row.id): EndorsedKey(
            public=bytes(row.public),
            by=str(row.endorser),
            sig=bytes(row.endorsement),
        )
        for row in rows
    }


def _list_endorsed_keys(
    rows: Sequence[SigningKey], filed: Mapping[str, EndorsedKey]
) -> dict[str, EndorsedKey]:
    """List the keys of database and file that are endorsed back to the root."""
    if not rows:
        return {}
    try:
        root, public = _find_root(rows)
    except KeyMissingError:
        raise LedgerBrokenError(file=FILE) from None
    found = {**filed, **_build_stored_keys(rows)}
    return _filter_endorsed(found, root) if found[root].public == public else {}


def _get_path() -> Path:
    folder: Path = settings.LEDGER
    return folder / FILE


def _read_file() -> dict[str, EndorsedKey]:
    try:
        return _parse_keys(_get_path().read_bytes())[0]
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        raise LedgerBrokenError(file=FILE) from None


def _write_file(keys: Mapping[str, EndorsedKey], *, draft: str) -> None:
    path = _get_path()
    written = path.with_name(f"{path.name}.{draft}.new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        ring_file.write_new(written, encode_keys(keys))
        written.replace(path)
        ring_file.sync_folder(path.parent)
    except OSError as failure:
        raise LedgerUnwritableError from failure
