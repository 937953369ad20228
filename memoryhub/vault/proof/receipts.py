"""Receipts: signed statements that anybody can check, without a database of ours.

Canonical JSON: UTF-8, sorted keys, no white space, integers only. The Ed25519 signature
is over that text without its `sig`; who checks one may have it in any other layout. Its
`root` is the fingerprint of the key that the signing one leads back to: the same in
every receipt of a hub.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from memoryhub.errors import Refusal
from memoryhub.kernel.text import strict_json
from memoryhub.vault.proof import signing
from memoryhub.vault.proof.signing import Signer

RECEIPT: Final = "memoryhub.receipt/2"
ADDENDUM: Final = "memoryhub.receipt-addendum/1"
FORMATS: Final = (RECEIPT, ADDENDUM)
#: Far above any receipt; what is no receipt is not read at length.
MAX_BYTES: Final = 1 << 20
_LIMITS: Final = strict_json.Limits(max_bytes=MAX_BYTES, max_nodes=sys.maxsize)


Reason = Literal[
    "malformed", "not_a_receipt", "unknown_key", "unknown_root", "bad_signature"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptCheck:
    """Whether a receipt is ours and as it was signed; if not, why."""

    reason: Reason | Literal[""] = ""
    #: What it says; only of a good one.
    says: Mapping[str, Any] | None = None

    @property
    def valid(self) -> bool:
        return not self.reason


def canonical(shape: Mapping[str, Any]) -> bytes:
    """Return the one text of a statement.

    Raises ValueError for a number with a fraction.
    """
    if not _whole(shape):
        raise ValueError("a receipt has integers only")
    return strict_json.canonical(dict(shape))


def signed(shape: Mapping[str, Any], signer: Signer) -> str:
    """Sign a statement, and return its text with the signature."""
    bare = {**shape, "root": signer.root, "key_id": signer.key_id}
    sig = signer.sign(canonical(bare))
    return canonical({**bare, "sig": sig.hex()}).decode()


def verify(text: bytes, keys: Mapping[str, bytes]) -> ReceiptCheck:
    """Look whether one of these public keys signed what this JSON text says.

    White space, escapes and the order of members do not count. What could be read in
    two ways is malformed: a key that stands twice, a number that is no integer.
    """
    shape = _parsed(text)
    if shape is None:
        return ReceiptCheck(reason="malformed")
    bare = {name: value for name, value in shape.items() if name != "sig"}
    key_id, sig = bare.get("key_id"), shape.get("sig")
    if not (isinstance(key_id, str) and isinstance(sig, str)):
        return ReceiptCheck(reason="not_a_receipt")
    if bare.get("v") not in FORMATS:
        return ReceiptCheck(reason="not_a_receipt")
    if key_id not in keys:
        return ReceiptCheck(reason="unknown_key")
    if not signing.verify(key_id, canonical(bare), _unhexed(sig), keys):
        return ReceiptCheck(reason="bad_signature")
    if bare.get("root") not in {*map(signing.fingerprint, keys.values())}:
        return ReceiptCheck(reason="unknown_root")
    return ReceiptCheck(says=shape)


def digest(text: str) -> bytes:
    """Return the SHA-256 of a receipt's text, which the ledger keeps."""
    return hashlib.sha256(text.encode()).digest()


def _parsed(text: bytes) -> dict[str, Any] | None:
    """The object that a text is, if it has integers only, else None."""
    try:
        shape = strict_json.parse(text, _LIMITS)
    except Refusal:
        return None
    return shape if isinstance(shape, dict) and _whole(shape) else None


def _unhexed(text: str) -> bytes:
    try:
        value = bytes.fromhex(text)
    except ValueError:
        return b""
    # In one spelling only, or a changed letter would go unseen.
    return value if value.hex() == text else b""


def _whole(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(k, str) and _whole(v) for k, v in value.items())
    if isinstance(value, list | tuple):
        return all(map(_whole, value))
    return value is None or isinstance(value, str | int)
