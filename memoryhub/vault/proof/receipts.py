"""Receipts: signed statements that anybody can check without the hub's databases.

Canonical JSON: UTF-8, sorted keys, no white space, integers only. The Ed25519 signature
is over that text without its `sig`; a check accepts any other layout of the JSON. The
`root` is the fingerprint of the root key that vouches for the signing key: the same in
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
#: Most bytes that are read; far above the size of any receipt.
MAX_BYTES: Final = 1 << 20
_LIMITS: Final = strict_json.JsonLimits(max_bytes=MAX_BYTES, max_nodes=sys.maxsize)


Reason = Literal[
    "malformed", "not_a_receipt", "unknown_key", "unknown_root", "bad_signature"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptCheck:
    """Result of checking a receipt: its statement, or the reason of failure."""

    reason: Reason | Literal[""] = ""
    #: Statement of a valid receipt; else None.
    says: Mapping[str, Any] | None = None

    @property
    def valid(self) -> bool:
        return not self.reason


def render_canonical(shape: Mapping[str, Any]) -> bytes:
    """Render the canonical text of a statement.

    Raises ValueError for a number with a fraction.
    """
    if not _has_integers_only(shape):
        raise ValueError("a receipt has integers only")
    return strict_json.dump_canonical(dict(shape))


def sign_statement(shape: Mapping[str, Any], signer: Signer) -> str:
    """Sign a statement; return its canonical text with the signature."""
    bare = {**shape, "root": signer.root, "key_id": signer.key_id}
    sig = signer.sign(render_canonical(bare))
    return render_canonical({**bare, "sig": sig.hex()}).decode()


def verify(text: bytes, keys: Mapping[str, bytes]) -> ReceiptCheck:
    """Check whether one of these public keys signed the statement in a JSON text.

    White space, escapes and the order of members do not count. An ambiguous text is
    malformed: with a repeated key, or a number that is no integer.
    """
    shape = _parse_receipt(text)
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
    if not signing.is_signed(key_id, render_canonical(bare), _parse_hex(sig), keys):
        return ReceiptCheck(reason="bad_signature")
    if bare.get("root") not in {*map(signing.compute_fingerprint, keys.values())}:
        return ReceiptCheck(reason="unknown_root")
    return ReceiptCheck(says=shape)


def digest(text: str) -> bytes:
    """Return the SHA-256 of a receipt's text, which the ledger keeps."""
    return hashlib.sha256(text.encode()).digest()


def _parse_receipt(text: bytes) -> dict[str, Any] | None:
    """Parse a JSON object that has integers only; None for any other text."""
    try:
        shape = strict_json.parse(text, _LIMITS)
    except Refusal:
        return None
    return shape if isinstance(shape, dict) and _has_integers_only(shape) else None


def _parse_hex(text: str) -> bytes:
    try:
        value = bytes.fromhex(text)
    except ValueError:
        return b""
    # Accept one spelling only, or a changed letter would go unseen.
    return value if value.hex() == text else b""


def _has_integers_only(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(
            isinstance(k, str) and _has_integers_only(v) for k, v in value.items()
        )
    if isinstance(value, list | tuple):
        return all(map(_has_integers_only, value))
    return value is None or isinstance(value, str | int)
