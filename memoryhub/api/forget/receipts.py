from __future__ import annotations

from typing import Any, Literal

from django.http import HttpRequest

from memoryhub.api.document.fields import In, Out, build_example
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter
from memoryhub.errors import LedgerBrokenError
from memoryhub.kernel.text import strict_json
from memoryhub.vault.proof import receipts, signing

router = StrictRouter(tags=["receipts"])


class ReceiptIn(In):
    """A receipt or addendum with all its members, in any order."""

    model_config = build_example(
        {
            "receipt": {
                "v": "memoryhub.receipt/2",
                "receipt": "01939d5e-6c0f-7a51-9d0e-2b1f6d3c8a48",
                "status": "verified_with_residue",
                "root": "3f" * 32,
                "key_id": "01939d5e-6c0f-7a51-9d0e-2b1f6d3c8a49",
                "sig": "5f…",
            }
        }
    )

    receipt: dict[str, Any]


class ReceiptVerdictOut(Out):
    model_config = build_example({"valid": False, "reason": "bad_signature"})

    valid: bool
    #: Reason why the receipt is not valid.
    reason: receipts.Reason | None


class EndorsedOut(Out):
    """A public key, in hex, signed by the key before it."""

    public: str
    #: Id of the key that signed this key; the root signs itself.
    by: str
    #: Signature over `memoryhub.public-key/1|<id>|<public>`.
    sig: str


class PublicKeysOut(Out):
    """Public keys by id, as `receipt verify --pub` takes them."""

    model_config = build_example(
        {
            "format": "memoryhub.public-keys/2",
            "root": "3f" * 32,
            "keys": {
                "01939d5e-6c0f-7a51-9d0e-2b1f6d3c8a49": {
                    "public": "ab" * 32,
                    "by": "01939d5e-6c0f-7a51-9d0e-2b1f6d3c8a49",
                    "sig": "cd" * 64,
                }
            },
        }
    )

    format: Literal["memoryhub.public-keys/2"]
    #: SHA-256 of the first key, the root of all others; every receipt names it.
    root: str | None
    keys: dict[str, EndorsedOut]


@router.route(
    "POST",
    "/receipts:verify",
    needs=auth.ANY,
    out=ReceiptVerdictOut,
    refusals=[LedgerBrokenError],
)
def verify(request: HttpRequest, body: ReceiptIn) -> ReceiptVerdictOut:
    """Check whether this hub signed a receipt, exactly as sent.

    Changes nothing; it is a POST because the receipt is in the body.
    """
    text = strict_json.dump_canonical(body.receipt)
    verdict = receipts.verify(text, signing.list_public_keys())
    return ReceiptVerdictOut(valid=verdict.valid, reason=verdict.reason or None)


@router.route(
    "GET",
    "/receipt-keys",
    needs=auth.ANY,
    out=PublicKeysOut,
    refusals=[LedgerBrokenError],
)
def list_keys(request: HttpRequest) -> PublicKeysOut:
    """List the public keys of all receipts, to verify without this hub."""
    return PublicKeysOut.model_validate(signing.to_json(signing.list_endorsed_keys()))
