"""Time-based codes: as in RFC 6238, each accepted once, from a wrapped secret."""

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
from memoryhub.services.access.second_factors import STEP_SECONDS, compute_code
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
def test_codes_match_rfc_6238(at: int, code: str) -> None:
    assert compute_code(b"12345678901234567890", at // STEP_SECONDS) == code


def test_second_factor_is_added_with_a_code_of_its_secret(olga: Operator) -> None:
    with time_machine.travel(START, tick=False):
        with pytest.raises(InvalidError):
            second_factors.add(olga, SECRET, compute_code(SECRET, STEP + 9))
        assert not second_factors.has_factor(olga)
        second_factors.add(olga, SECRET, compute_code(SECRET, STEP))
    assert second_factors.has_factor(olga)
    row = OperatorKey.objects.using("keys").get()
    assert SECRET not in bytes(row.wrapped)


def test_code_is_accepted_once(olga: Operator) -> None:
    with time_machine.travel(START, tick=False) as travel:
        second_factors.add(olga, SECRET, compute_code(SECRET, STEP))
        assert not second_factors.use_code(olga, compute_code(SECRET, STEP))
        travel.shift(timedelta(seconds=STEP_SECONDS))
        code = compute_code(SECRET, STEP + 1)
        assert second_factors.use_code(olga, f"{code[:3]} {code[3:]}")
        assert not second_factors.use_code(olga, code)
        # A code older than the last accepted one is refused too.
        assert not second_factors.use_code(olga, compute_code(SECRET, STEP))


@pytest.mark.parametrize(
    ("step", "fits"), [(-2, False), (-1, True), (0, True), (1, True), (2, False)]
)
def test_code_is_accepted_one_step_early_or_late(
    step: int, fits: bool, olga: Operator
) -> None:
    with time_machine.travel(START, tick=False) as travel:
        second_factors.add(olga, SECRET, compute_code(SECRET, STEP))
        travel.shift(timedelta(hours=1))
        code = compute_code(SECRET, STEP + 3600 // STEP_SECONDS + step)
        assert second_factors.use_code(olga, code) is fits


@pytest.mark.parametrize("code", ["", "12345", "abcdef", "\u0661\u0662\u0663" * 2])
def test_malformed_code_is_refused(code: str, olga: Operator) -> None:
    with time_machine.travel(START, tick=False):
        second_factors.add(olga, SECRET, compute_code(SECRET, STEP))
        assert not second_factors.use_code(olga, code)


def test_code_of_another_operator_is_refused(olga: Operator) -> None:
    other = operators.add("bert")
    with time_machine.travel(START, tick=False) as travel:
        for who, secret in ((olga, SECRET), (other, b"t" * 32)):
            second_factors.add(who, secret, compute_code(secret, STEP))
        travel.shift(timedelta(minutes=1))
        assert not second_factors.use_code(other, compute_code(SECRET, STEP + 2))
        assert second_factors.use_code(olga, compute_code(SECRET, STEP + 2))


def test_key_rotation_includes_second_factors(olga: Operator) -> None:
    before = keyring.count_rows_per_kek()
    with time_machine.travel(START, tick=False):
        second_factors.add(olga, SECRET, compute_code(SECRET, STEP))
    kek = OperatorKey.objects.using("keys").get().kek_id
    assert keyring.count_rows_per_kek() == {**before, kek: before.get(kek, 0) + 1}
    (table,) = (each for each in keyring.WRAPPED if each.model is OperatorKey)
    assert table.owner == OperatorKey._meta.pk.attname


def test_second_factor_changes_are_audited(olga: Operator) -> None:
    with time_machine.travel(START, tick=False):
        second_factors.add(olga, SECRET, compute_code(SECRET, STEP))
    assert second_factors.remove(olga)
    assert not second_factors.remove(olga)
    entries = AuditEntry.objects.filter(action__startswith="operator.factor")
    assert [(row.action, row.target_id) for row in entries.order_by("seq")] == [
        ("operator.factor_added", str(olga.id)),
        ("operator.factor_removed", str(olga.id)),
    ]


def test_otpauth_address_holds_the_secret(olga: Operator) -> None:
    address = urlsplit(second_factors.build_otpauth_uri(SECRET, olga))
    query = parse_qs(address.query)
    assert (address.scheme, address.netloc) == ("otpauth", "totp")
    assert query["secret"] == [second_factors.to_base32(SECRET)]
    assert query["issuer"] == ["MemoryHub"]


@pytest.mark.parametrize(
    ("role", "wanted"),
    [("viewer", False), ("editor", False), ("officer", True), ("owner", True)],
)
def test_officer_and_owner_need_a_second_factor(
    role: str, wanted: bool, acme: Project, olga: Operator
) -> None:
    operators.set_role(acme, olga, role)
    assert second_factors.needs_factor(olga) is wanted
