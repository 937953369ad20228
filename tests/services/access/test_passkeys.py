"""Passkeys: a device signs one challenge for one host; all other answers fail."""

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
from memoryhub.services.access.passkeys import PasskeySignIn, PasskeySite
from tests.cast.devices import ORIGIN, Device

pytestmark = pytest.mark.django_db

SITE = PasskeySite(host="localhost", origin=ORIGIN)
OTHER = PasskeySite(host="elsewhere.example", origin="https://elsewhere.example")


@pytest.fixture
def olga(db: None) -> Operator:
    return operators.add("olga")


@pytest.fixture
def device(olga: Operator) -> Device:
    return add(olga, Device())


def add(operator: Operator, device: Device, name: str = "Phone") -> Device:
    options, state = passkeys.begin_registration(operator, SITE)
    answer = device.create(options)
    passkeys.add(operator, SITE, state=state, answer=answer, name=name)
    return device


def show(device: Device, **wrong: Any) -> PasskeySignIn | None:
    options, state = passkeys.begin_sign_in(SITE)
    return passkeys.verify_sign_in(
        SITE, state=state, answer=device.get(options, **wrong)
    )


def test_device_signs_its_operator_in(olga: Operator, device: Device) -> None:
    assert passkeys.has_passkey(olga)
    assert show(device) == PasskeySignIn(operator=olga, verified=True)
    device.verifies = False
    assert show(device) == PasskeySignIn(operator=olga, verified=False)
    (row,) = passkeys.list_passkeys(olga)
    assert (row.signed, row.host, row.name) == (2, "localhost", "Phone")
    assert row.used_at is not None


def test_passkey_options_name_the_host_and_ask_for_a_resident_key(
    olga: Operator, device: Device
) -> None:
    options, _ = passkeys.begin_registration(olga, SITE)
    assert options["rp"] == {"id": "localhost", "name": "MemoryHub"}
    assert options["user"]["name"] == "olga"
    assert options["authenticatorSelection"]["residentKey"] == "preferred"
    assert {kind["alg"] for kind in options["pubKeyCredParams"]} == {-7, -8, -257}
    # The options exclude a device that is known here.
    assert len(options["excludeCredentials"]) == 1
    request, state = passkeys.begin_sign_in(SITE)
    assert request["rpId"] == "localhost"
    assert "allowCredentials" not in request
    assert passkeys.begin_sign_in(SITE)[1]["challenge"] != state["challenge"]
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
def test_answer_of_wrong_origin_challenge_or_type_signs_nobody_in(
    device: Device, wrong: dict[str, str]
) -> None:
    assert show(device, **wrong) is None
    assert show(device) is not None


def test_answer_for_another_host_signs_nobody_in(device: Device) -> None:
    options, state = passkeys.begin_sign_in(OTHER)
    answer = device.get(options, origin=OTHER.origin)
    assert passkeys.verify_sign_in(OTHER, state=state, answer=answer) is None
    options, state = passkeys.begin_sign_in(SITE)
    answer = device.get({**options, "rpId": OTHER.host})
    assert passkeys.verify_sign_in(SITE, state=state, answer=answer) is None


def test_every_name_gets_as_many_credential_ids(olga: Operator, device: Device) -> None:
    """Give unknown names credential ids too, so that ids reveal no account."""
    ids_of = {
        name: [each["id"] for each in _list_allowed(name)]
        for name in ("olga", "bert", "no name\0")
    }
    assert {len(ids) for ids in ids_of.values()} == {3}
    assert websafe_encode(device.id) in ids_of["olga"]
    assert not set(ids_of["olga"]) & set(ids_of["bert"])
    assert [each["id"] for each in _list_allowed("bert")] == ids_of["bert"]


def _list_allowed(name: str) -> list[dict[str, str]]:
    options, _ = passkeys.begin_sign_in(SITE, name=name)
    found: list[dict[str, str]] = options["allowCredentials"]
    return found


def test_forged_key_or_unknown_device_signs_nobody_in(device: Device) -> None:
    forged = replace(device, key=ec.generate_private_key(ec.SECP256R1()))
    assert show(forged) is None
    assert show(replace(device, id=b"unknown")) is None


def test_device_naming_another_operator_signs_nobody_in(device: Device) -> None:
    bert = operators.add("bert")
    assert show(replace(device, user_handle=bert.id.bytes)) is None
    assert show(replace(device, user_handle=None)) is not None


def test_cloned_device_with_a_stale_counter_signs_nobody_in(device: Device) -> None:
    cloned = copy.copy(device)
    assert show(device) is not None
    assert show(cloned) is None
    # The original counts on and stays.
    assert show(device) is not None


def test_device_without_a_counter_signs_in_each_time(olga: Operator) -> None:
    device = add(olga, Device(signed=None))
    assert show(device) is not None
    assert show(device) is not None


def test_passkey_of_a_disabled_operator_signs_nobody_in(
    olga: Operator, device: Device
) -> None:
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
def test_broken_answer_signs_nobody_in_and_adds_no_passkey(
    olga: Operator, answer: str
) -> None:
    _, state = passkeys.begin_sign_in(SITE)
    assert passkeys.verify_sign_in(SITE, state=state, answer=answer) is None
    _, state = passkeys.begin_registration(olga, SITE)
    with pytest.raises(InvalidError):
        passkeys.add(olga, SITE, state=state, answer=answer, name="")
    assert not passkeys.has_passkey(olga)


@pytest.mark.parametrize(
    "wrong", [{"origin": "http://evil.example"}, {"type": "webauthn.get"}]
)
def test_answer_of_wrong_origin_or_type_adds_no_passkey(
    olga: Operator, wrong: dict[str, str]
) -> None:
    options, state = passkeys.begin_registration(olga, SITE)
    answer = Device().create(options, **wrong)
    with pytest.raises(InvalidError):
        passkeys.add(olga, SITE, state=state, answer=answer, name="")
    assert not passkeys.has_passkey(olga)


def test_device_belongs_to_one_operator(olga: Operator, device: Device) -> None:
    bert = operators.add("bert")
    with pytest.raises(InvalidError):
        add(bert, replace(device))
    assert [row.operator for row in Passkey.objects.using("keys").all()] == [olga.id]


def test_operator_has_a_limited_number_of_passkeys(olga: Operator) -> None:
    for n in range(passkeys.MAX_PASSKEYS):
        add(olga, Device(), f"key {n}")
    with pytest.raises(InvalidError) as refusal:
        passkeys.begin_registration(olga, SITE)
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
def test_passkey_name_is_one_short_line(olga: Operator, sent: str, kept: str) -> None:
    add(olga, Device(), sent)
    assert [row.name for row in passkeys.list_passkeys(olga)] == [kept]


def test_passkey_is_removed_by_its_own_operator_alone(
    olga: Operator, device: Device
) -> None:
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
def test_passkeys_need_a_host_name_and_no_address(host: str, *, named: bool) -> None:
    assert PasskeySite(host=host, origin="").has_domain_name is named
