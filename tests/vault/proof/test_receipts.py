"""Receipts as texts: whatever is changed in one, it is no longer ours."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from memoryhub.kernel.text import strict_json
from memoryhub.vault.proof import receipts
from memoryhub.vault.proof.signing import Signer, compute_fingerprint

KEY = Ed25519PrivateKey.generate()
SIGNER = Signer(
    key_id="0198c0de-0000-7000-8000-000000000001",
    root=compute_fingerprint(KEY.public_key().public_bytes_raw()),
    _key=KEY,
)
KEYS = {SIGNER.key_id: SIGNER.public}
SHAPE: dict[str, Any] = {
    "v": receipts.RECEIPT,
    "erased": {"events": {"count": 412, "method": "nulled"}},
    "residue": [{"what": "backups", "until": "2026-12-01"}],
    "ticket": None,
    "self_test": True,
    "text": "é \u2028 \x7f",
}


def sign_text() -> bytes:
    return receipts.sign_statement(SHAPE, SIGNER).encode()


def test_signed_receipt_is_valid() -> None:
    verdict = receipts.verify(sign_text(), KEYS)
    assert verdict.valid
    assert verdict.says is not None
    assert verdict.says["erased"] == SHAPE["erased"]


def test_receipt_text_is_canonical() -> None:
    one = receipts.render_canonical({"b": 1, "a": [True, None, "é"]})
    assert one == '{"a":[true,null,"é"],"b":1}'.encode()
    assert one == receipts.render_canonical({"a": (True, None, "é"), "b": 1})


@pytest.mark.parametrize("value", [1.0, 0.5, {"x": [1.5]}, {1: 2}, b"x"])
def test_receipt_takes_only_integers_and_words(value: Any) -> None:
    with pytest.raises(ValueError, match="integers only"):
        receipts.sign_statement({"v": receipts.RECEIPT, "x": value}, SIGNER)


def test_receipt_with_a_flipped_bit_is_invalid() -> None:
    good = sign_text()
    for place in range(len(good)):
        for bit in range(8):
            changed = bytearray(good)
            changed[place] ^= 1 << bit
            assert not receipts.verify(bytes(changed), KEYS).valid, (place, bit)


def test_receipt_with_text_cut_or_added_is_invalid() -> None:
    good = sign_text()
    for end in range(len(good)):
        assert not receipts.verify(good[:end], KEYS).valid
    for extra in (b"x", b"{}", b"\0"):
        assert not receipts.verify(good + extra, KEYS).valid
        assert not receipts.verify(extra + good, KEYS).valid


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("indent", [None, 0, 2, "\t"])
def test_receipt_verifies_in_any_layout(
    indent: int | str | None, ascii_only: bool
) -> None:
    """An editor or `jq` may have rewritten the text."""
    shape = dict(reversed(strict_json.parse(sign_text()).items()))
    other = json.dumps(shape, indent=indent, ensure_ascii=ascii_only)
    assert receipts.verify(f"\n{other}\r\n".encode(), KEYS).valid


def test_receipt_with_two_readings_is_refused_in_any_layout() -> None:
    good = json.dumps(strict_json.parse(sign_text()), indent=2)
    for old, new in (
        ('"ticket": null', '"ticket": null, "ticket": null'),
        ('"ticket": null', '"ticket": "A-1", "ticket": null'),
        ("412", "412.0"),
        ("412", "4.12e2"),
        ("412", "0412"),
        ("412", str(2**64)),
        ("412", "NaN"),
        ("{", "\ufeff{"),
    ):
        changed = good.replace(old, new, 1)
        assert changed != good
        assert receipts.verify(changed.encode(), KEYS).reason == "malformed", new
    assert receipts.verify(good.encode("utf-16"), KEYS).reason == "malformed"


def get_reason(shape: dict[str, Any]) -> str:
    return receipts.verify(strict_json.dump_canonical(shape), KEYS).reason


def test_invalid_receipt_has_a_reason_code() -> None:
    shape = strict_json.parse(sign_text())
    assert get_reason(shape) == ""
    assert get_reason({**shape, "ticket": "A-1"}) == "bad_signature"
    assert get_reason({**shape, "sig": shape["sig"].upper()}) == "bad_signature"
    assert get_reason({**shape, "sig": "zz"}) == "bad_signature"
    assert get_reason({**shape, "sig": 7}) == "not_a_receipt"
    assert get_reason({**shape, "v": "something/1"}) == "not_a_receipt"
    assert get_reason({**shape, "key_id": "other"}) == "unknown_key"
    assert get_reason({**shape, "root": "00" * 32}) == "bad_signature"
    assert get_reason({**shape, "ticket": 1.5}) == "malformed"
    assert get_reason({}) == "not_a_receipt"
    for odd in (b"", b"[]", b'"x"', b"nothing", b"\xff", b"1" * 5000):
        assert receipts.verify(odd, KEYS).reason == "malformed"
    assert receipts.verify(b" " * (receipts.MAX_BYTES + 1), KEYS).reason


def test_receipt_does_not_verify_by_another_key_of_its_id() -> None:
    other = replace(SIGNER, _key=Ed25519PrivateKey.generate())
    keys = {SIGNER.key_id: other.public}
    assert receipts.verify(sign_text(), keys).reason == "bad_signature"
    assert receipts.verify(sign_text(), {}).reason == "unknown_key"


def test_receipt_names_the_root_of_its_keys() -> None:
    """A key list whose beginning was cut off therefore proves nothing."""
    assert strict_json.parse(sign_text())["root"] == SIGNER.root
    elsewhere = replace(SIGNER, root="00" * 32)
    signed = receipts.sign_statement(SHAPE, elsewhere).encode()
    assert receipts.verify(signed, KEYS).reason == "unknown_root"


def test_receipt_digest_is_that_of_its_text() -> None:
    assert receipts.digest("x") != receipts.digest("y")
    assert len(receipts.digest("x")) == 32
