"""Codes by time: those of the RFC, each once, from a secret that is stored wrapped."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
import time_machine

from memoryhub.errors import InvalidError
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.access.operators import Operator
from memoryhub.models.keys import OperatorKey
from memoryhub.models.projects import Project
from memoryhub.services.access import operators, second_factors
from memoryhub.services.access.second_factors import STEP_SECONDS, code_at
from memoryhub.vault.keys import keyring

pytestmark = pytest.mark.django_db

START = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)
STEP = int(START.timestamp()) // STEP_SECONDS
SECRET = b"s" * second_factors.SECRET_BYTES


@pytest.fixture
def olga(db: None) -> Operator:
    return operators.add("olga")


@pytest.mark.parametrize(
    ("at", "code"),
    [
        (59, "287082"),
        (1_111_111_109, "081804"),
        (1_111_111_111, "050471"),
        (1_234_567_890, "005924"),
        (2_000_000_000, "279037"),
        (20_000_000_000, "353130"),
    ],
)
def test_codes_are_those_of_rfc_6238(at: int, code: str) -> None:
    assert code_at(b"12345678901234567890", at // STEP_SECONDS) == code


def test_a_factor_is_added_by_a_code_of_its_secret(olga: Operator) -> None:
    with time_machine.travel(START, tick=False):
        with pytest.raises(InvalidError):
            second_factors.add(olga, SECRET, code_at(SECRET, STEP + 9))
        assert not second_factors.exists(olga)
        second_factors.add(olga, SECRET, code_at(SECRET, STEP))
    assert second_factors.exists(olga)
    row = OperatorKey.objects.using("keys").get()
    assert SECRET not in bytes(row.wrapped)


def test_a_code_is_taken_once(olga: Operator) -> None:
    with time_machine.travel(START, tick=False) as travel:
        second_factors.add(olga, SECRET, code_at(SECRET, STEP))
        assert not second_factors.accepts(olga, code_at(SECRET, STEP))
        travel.shift(timedelta(seconds=STEP_SECONDS))
        code = code_at(SECRET, STEP + 1)
        assert second_factors.accepts(olga, f"{code[:3]} {code[3:]}")
        assert not second_factors.accepts(olga, code)
        # Nor any that is older than the last.
        assert not second_factors.accepts(olga, code_at(SECRET, STEP))


@pytest.mark.parametrize(
    ("step", "fits"), [(-2, False), (-1, True), (0, True), (1, True), (2, False)]
)
def test_clocks_may_differ_by_one_step(step: int, fits: bool, olga: Operator) -> None:
    with time_machine.travel(START, tick=False) as travel:
        second_factors.add(olga, SECRET, code_at(SECRET, STEP))
        travel.shift(timedelta(hours=1))
        code = code_at(SECRET, STEP + 3600 // STEP_SECONDS + step)
        assert second_factors.accepts(olga, code) is fits


@pytest.mark.parametrize("code", ["", "12345", "abcdef", "\u0661\u0662\u0663" * 2])
def test_what_is_no_code_fits_nobody(code: str, olga: Operator) -> None:
    with time_machine.travel(START, tick=False):
        second_factors.add(olga, SECRET, code_at(SECRET, STEP))
        assert not second_factors.accepts(olga, code)


def test_another_operators_code_does_not_fit(olga: Operator) -> None:
    other = operators.add("bert")
    with time_machine.travel(START, tick=False) as travel:
        for who, secret in ((olga, SECRET), (other, b"t" * 32)):
            second_factors.add(who, secret, code_at(secret, STEP))
        travel.shift(timedelta(minutes=1))
        assert not second_factors.accepts(other, code_at(SECRET, STEP + 2))
        assert second_factors.accepts(olga, code_at(SECRET, STEP + 2))


def test_a_rotation_takes_it_along_with_all_other_keys(olga: Operator) -> None:
    before = keyring.rows_per_kek()
    with time_machine.travel(START, tick=False):
        second_factors.add(olga, SECRET, code_at(SECRET, STEP))
    kek = OperatorKey.objects.using("keys").get().kek_id
    assert keyring.rows_per_kek() == {**before, kek: before.get(kek, 0) + 1}
    (table,) = (each for each in keyring.WRAPPED if each.model is OperatorKey)
    assert table.owner == OperatorKey._meta.pk.attname


def test_adding_and_removing_are_audited(olga: Operator) -> None:
    with time_machine.travel(START, tick=False):
        second_factors.add(olga, SECRET, code_at(SECRET, STEP))
    assert second_factors.remove(olga)
    assert not second_factors.remove(olga)
    entries = AuditEntry.objects.filter(action__startswith="operator.factor")
    assert [(row.action, row.target_id) for row in entries.order_by("seq")] == [
        ("operator.factor_added", str(olga.id)),
        ("operator.factor_removed", str(olga.id)),
    ]


def test_a_device_can_read_the_secret(olga: Operator) -> None:
    address = urlsplit(second_factors.address_of(SECRET, olga))
    query = parse_qs(address.query)
    assert (address.scheme, address.netloc) == ("otpauth", "totp")
    assert query["secret"] == [second_factors.text_of(SECRET)]
    assert query["issuer"] == ["MemoryHub"]


@pytest.mark.parametrize(
    ("role", "wanted"),
    [("viewer", False), ("editor", False), ("officer", True), ("owner", True)],
)
def test_who_may_erase_needs_one(
    role: str, wanted: bool, acme: Project, olga: Operator
) -> None:
    operators.set_role(acme, olga, role)
    assert second_factors.wanted(olga) is wanted
