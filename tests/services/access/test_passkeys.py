"""Passkeys: a device signs what it was asked, for its host, and no more is taken."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from fido2.utils import websafe_encode

from memoryhub.errors import InvalidError
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.access.operators import Operator
from memoryhub.models.keys import Passkey
from memoryhub.services.access import operators, passkeys
from memoryhub.services.access.passkeys import Shown, Site
from tests.cast.devices import ORIGIN, Device

pytestmark = pytest.mark.django_db

SITE = Site(host="localhost", origin=ORIGIN)
OTHER = Site(host="elsewhere.example", origin="https://elsewhere.example")


@pytest.fixture
def olga(db: None) -> Operator:
    return operators.add("olga")


@pytest.fixture
def device(olga: Operator) -> Device:
    return add(olga, Device())


def add(operator: Operator, device: Device, name: str = "Phone") -> Device:
    options, state = passkeys.propose(operator, SITE)
    answer = device.create(options)
    passkeys.add(operator, SITE, state=state, answer=answer, name=name)
    return device


def show(device: Device, **wrong: Any) -> Shown | None:
    options, state = passkeys.challenge(SITE)
    return passkeys.shown(SITE, state=state, answer=device.get(options, **wrong))


def test_a_device_signs_its_operator_in(olga: Operator, device: Device) -> None:
    assert passkeys.exists(olga)
    assert show(device) == Shown(operator=olga, verified=True)
    device.verifies = False
    assert show(device) == Shown(operator=olga, verified=False)
    (row,) = passkeys.list_passkeys(olga)
    assert (row.signed, row.host, row.name) == (2, "localhost", "Phone")
    assert row.used_at is not None


def test_what_is_asked_names_us_and_wants_a_device_that_knows_who(
    olga: Operator, device: Device
) -> None:
    options, _ = passkeys.propose(olga, SITE)
    assert options["rp"] == {"id": "localhost", "name": "MemoryHub"}
    assert options["user"]["name"] == "olga"
    assert options["authenticatorSelection"]["residentKey"] == "preferred"
    assert {kind["alg"] for kind in options["pubKeyCredParams"]} == {-7, -8, -257}
    # A device that is known here need not be added again.
    assert len(options["excludeCredentials"]) == 1
    request, state = passkeys.challenge(SITE)
    assert request["rpId"] == "localhost"
    assert "allowCredentials" not in request
    assert passkeys.challenge(SITE)[1]["challenge"] != state["challenge"]
    json.dumps([options, request, state])


@pytest.mark.parametrize(
    "wrong",
    [
        {"origin": "http://localhost:8001"},
        {"origin": "https://localhost"},
        {"origin": "http://evil.localhost"},
        {"challenge": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
        {"type": "webauthn.create"},
    ],
)
def test_another_answer_than_was_asked_for_shows_nobody(
    device: Device, wrong: dict[str, str]
) -> None:
    assert show(device, **wrong) is None
    assert show(device) is not None


def test_an_answer_for_another_host_shows_nobody(device: Device) -> None:
    options, state = passkeys.challenge(OTHER)
    answer = device.get(options, origin=OTHER.origin)
    assert passkeys.shown(OTHER, state=state, answer=answer) is None
    options, state = passkeys.challenge(SITE)
    answer = device.get({**options, "rpId": OTHER.host})
    assert passkeys.shown(SITE, state=state, answer=answer) is None


def test_a_name_has_ids_whoever_has_it(olga: Operator, device: Device) -> None:
    """So nobody learns by them who exists; the true one is among them."""
    ids_of = {
        name: [each["id"] for each in _allowed(name)]
        for name in ("olga", "bert", "no name\0")
    }
    assert {len(ids) for ids in ids_of.values()} == {3}
    assert websafe_encode(device.id) in ids_of["olga"]
    assert not set(ids_of["olga"]) & set(ids_of["bert"])
    assert [each["id"] for each in _allowed("bert")] == ids_of["bert"]


def _allowed(name: str) -> list[dict[str, str]]:
    options, _ = passkeys.challenge(SITE, name=name)
    found: list[dict[str, str]] = options["allowCredentials"]
    return found


def test_another_key_or_an_unknown_device_shows_nobody(device: Device) -> None:
    forged = replace(device, key=ec.generate_private_key(ec.SECP256R1()))
    assert show(forged) is None
    assert show(replace(device, id=b"unknown")) is None


def test_a_device_that_names_another_operator_shows_nobody(device: Device) -> None:
    bert = operators.add("bert")
    assert show(replace(device, user_handle=bert.id.bytes)) is None
    assert show(replace(device, user_handle=None)) is not None


def test_a_copy_that_did_not_count_on_shows_nobody(device: Device) -> None:
    cloned = copy.copy(device)
    assert show(device) is not None
    assert show(cloned) is None
    # The original counts on and stays.
    assert show(device) is not None


def test_a_device_that_never_counts_is_taken_each_time(olga: Operator) -> None:
    device = add(olga, Device(signed=None))
    assert show(device) is not None
    assert show(device) is not None


def test_a_disabled_operator_is_nobody(olga: Operator, device: Device) -> None:
    Operator.objects.filter(id=olga.id).update(is_active=False)
    assert show(device) is None


@pytest.mark.parametrize(
    "answer",
    [
        *("", "-", "null", "[]", "{}", '{"id":1}', "[" * 9_000, '"\ud800"'),
        '{"rawId":"AA","response":{}}',
        '{"rawId":"AA","response":{"clientDataJSON":"W10","authenticatorData":"AA"}}',
        '{"rawId":"AA","response":{"clientDataJSON":"e30","attestationObject":"ow"}}',
        "x" * 20_000,
    ],
)
def test_a_broken_answer_shows_and_adds_nobody(olga: Operator, answer: str) -> None:
    _, state = passkeys.challenge(SITE)
    assert passkeys.shown(SITE, state=state, answer=answer) is None
    _, state = passkeys.propose(olga, SITE)
    with pytest.raises(InvalidError):
        passkeys.add(olga, SITE, state=state, answer=answer, name="")
    assert not passkeys.exists(olga)


@pytest.mark.parametrize(
    "wrong", [{"origin": "http://evil.example"}, {"type": "webauthn.get"}]
)
def test_another_answer_than_was_proposed_adds_nothing(
    olga: Operator, wrong: dict[str, str]
) -> None:
    options, state = passkeys.propose(olga, SITE)
    answer = Device().create(options, **wrong)
    with pytest.raises(InvalidError):
        passkeys.add(olga, SITE, state=state, answer=answer, name="")
    assert not passkeys.exists(olga)


def test_a_device_is_one_operators(olga: Operator, device: Device) -> None:
    bert = operators.add("bert")
    with pytest.raises(InvalidError):
        add(bert, replace(device))
    assert [row.operator for row in Passkey.objects.using("keys").all()] == [olga.id]


def test_an_operator_has_so_many_and_no_more(olga: Operator) -> None:
    for n in range(passkeys.MAX_PASSKEYS):
        add(olga, Device(), f"key {n}")
    with pytest.raises(InvalidError) as refusal:
        passkeys.propose(olga, SITE)
    assert refusal.value.invalid_code == "many"
    names = [row.name for row in passkeys.list_passkeys(olga)]
    assert names == [f"key {n}" for n in range(passkeys.MAX_PASSKEYS)]


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("  My\tphone\n", "My phone"),
        ("", "Passkey"),
        ("\u202e\0", "Passkey"),
        ("x" * 99, "x" * 40),
    ],
)
def test_a_name_is_one_short_line(olga: Operator, sent: str, kept: str) -> None:
    add(olga, Device(), sent)
    assert [row.name for row in passkeys.list_passkeys(olga)] == [kept]


def test_one_is_taken_away_by_its_own_operator(olga: Operator, device: Device) -> None:
    bert = operators.add("bert")
    (row,) = passkeys.list_passkeys(olga)
    assert not passkeys.remove(bert, str(row.id))
    assert not passkeys.remove(olga, "no id")
    assert passkeys.remove(olga, str(row.id))
    assert show(device) is None
    noted = AuditEntry.objects.filter(action__startswith="operator.passkey")
    assert list(noted.order_by("seq").values_list("action", "target_id")) == [
        ("operator.passkey_added", str(olga.id)),
        ("operator.passkey_removed", str(olga.id)),
    ]


@pytest.mark.parametrize(
    ("host", "named"),
    [
        ("localhost", True),
        ("hub.example", True),
        ("127.0.0.1", False),
        ("[::1]", False),
    ],
)
def test_a_passkey_is_for_a_name_and_no_address(host: str, *, named: bool) -> None:
    assert Site(host=host, origin="").named is named
