"""Receipts that anybody with a key may have looked at."""

from __future__ import annotations

from typing import Any

import pytest

from memoryhub.kernel.text import strict_json
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.vault.proof import receipts, signing
from tests.api.client import Client
from tests.cast import factories
from tests.promises.tampering.manipulations import add_key, stranger

pytestmark = pytest.mark.django_db

SHAPE: dict[str, Any] = {
    "v": receipts.RECEIPT,
    "erased": {"events": 412},
    "ticket": None,
}


def sign_shape() -> dict[str, Any]:
    text = receipts.sign_statement(SHAPE, signing.get_signer())
    shape: dict[str, Any] = strict_json.parse(text.encode())
    return shape


async def verdict(api: Client, receipt: object) -> tuple[int, Any]:
    api.connect()
    answer = await api.post("/receipts:verify", {"receipt": receipt})
    return answer.status, answer.json


async def test_signed_receipt_is_valid(api: Client) -> None:
    api.connect()
    receipt = sign_shape()
    good = (200, {"valid": True, "reason": None})
    assert await verdict(api, receipt) == good
    # An agent may have read it into an object and written it out again.
    backwards = dict(reversed(receipt.items()))
    assert await verdict(api, backwards) == good


async def test_receipt_stays_valid_after_key_rotation(api: Client) -> None:
    api.connect()
    receipt = sign_shape()
    signing.rotate(at=clock.now())
    assert (await verdict(api, receipt))[1]["valid"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"erased": {"events": 411}}, "bad_signature"),
        ({"more": 1}, "bad_signature"),
        ({"sig": "00" * 64}, "bad_signature"),
        ({"sig": None}, "not_a_receipt"),
        ({"v": "memoryhub.receipt/3"}, "not_a_receipt"),
        ({"key_id": "00000000-0000-4000-8000-000000000000"}, "unknown_key"),
        ({"erased": 1.5}, "malformed"),
    ],
)
async def test_changed_receipt_is_invalid(
    api: Client, change: dict[str, Any], reason: str
) -> None:
    api.connect()
    answer = await verdict(api, {**sign_shape(), **change})
    assert answer == (200, {"valid": False, "reason": reason})


async def test_planted_key_in_the_list_makes_no_receipt_valid(api: Client) -> None:
    """A writer of the ledger's folder has signed the receipt and listed the key."""
    api.connect()
    good, own = sign_shape(), stranger()
    forged = strict_json.parse(receipts.sign_statement(SHAPE, own).encode())
    add_key(own)
    assert await verdict(api, forged) == (
        200,
        {"valid": False, "reason": "unknown_key"},
    )
    assert (await verdict(api, good))[1]["valid"]
    answer = await api.get("/receipt-keys")
    assert set(answer.json["keys"]) == {good["key_id"]}
    assert answer.json["root"] == good["root"]


async def test_receipt_that_is_no_object_is_refused(api: Client) -> None:
    assert (await verdict(api, "text"))[0] == 422
    assert (await verdict(api, None))[0] == 422
    api.connect()
    assert (await api.post("/receipts:verify", {})).status == 422


async def test_public_keys_verify_without_us(api: Client) -> None:
    api.connect()
    receipt = sign_shape()
    signing.rotate(at=clock.now())
    answer = await api.get("/receipt-keys")
    assert answer.status == 200
    keys = signing.decode_keys(answer.body)
    assert len(keys) == 2
    assert receipts.verify(strict_json.dump_canonical(receipt), keys).valid


@pytest.fixture(params=["memory:read", "memory:write", "subject:forget"])
def single(request: pytest.FixtureRequest, acme: Project) -> Client:
    """Return an agent with one scope."""
    return Client(key=factories.make_key(acme, scopes=[request.param])[1])


async def test_receipt_routes_accept_any_key(single: Client) -> None:
    single.connect()
    assert (await single.get("/receipt-keys")).status == 200
    assert (await verdict(single, {}))[0] == 200


async def test_damaged_key_list_is_reported(api: Client, settings: Any) -> None:
    api.connect()
    signing.get_signer()
    (settings.LEDGER / "public-keys.json").write_text("{}")
    answer = await api.get("/receipt-keys")
    assert (answer.status, answer.code) == (503, "ledger_broken")
