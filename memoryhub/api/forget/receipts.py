from __future__ import annotations

from typing import Any, Literal

from django.http import HttpRequest

from memoryhub.api.document.fields import In, Out, example
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter
from memoryhub.errors import LedgerBrokenError
from memoryhub.kernel.text import strict_json
from memoryhub.queries.threads.readers import read
from memoryhub.vault.proof import receipts, signing

router = StrictRouter(tags=["receipts"])


class ReceiptIn(In):
    """A receipt or an addendum, with all of its members; their order does not count."""

    model_config = example(
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
    model_config = example({"valid": False, "reason": "bad_signature"})

    valid: bool
    #: What is wrong with it.
    reason: receipts.Reason | None


class EndorsedOut(Out):
    """A public key, in hex, and the signature of the key before it."""

    public: str
    #: The id of the key that vouches for it; the root's is its own.
    by: str
    #: Over `memoryhub.public-key/1|<id>|<public>`.
    sig: str


class PublicKeysOut(Out):
    """Public keys by their id; as `receipt verify --pub` takes them."""

    model_config = example(
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
    #: SHA-256 of the first key, which all others lead back to; in every receipt, too.
    root: str | None
    keys: dict[str, EndorsedOut]


@router.route(
    "POST",
    "/receipts:verify",
    needs=auth.ANY,
    out=ReceiptVerdictOut,
    refusals=[LedgerBrokenError],
)
async def verify(request: HttpRequest, body: ReceiptIn) -> ReceiptVerdictOut:
    """Look whether this hub signed a receipt, whosever it is, just as it stands here.

    A POST since what is looked at is sent; it changes nothing.
    """
    return await read(_verify, body)


@router.route(
    "GET",
    "/receipt-keys",
    needs=auth.ANY,
    out=PublicKeysOut,
    refusals=[LedgerBrokenError],
)
async def list_keys(request: HttpRequest) -> PublicKeysOut:
    """The public keys of all receipts there ever were: verify without this hub."""
    return await read(_keys)


def _verify(body: ReceiptIn) -> ReceiptVerdictOut:
    text = strict_json.canonical(body.receipt)
    verdict = receipts.verify(text, signing.public_keys())
    return ReceiptVerdictOut(valid=verdict.valid, reason=verdict.reason or None)


def _keys() -> PublicKeysOut:
    return PublicKeysOut.model_validate(signing.shape(signing.entries()))
