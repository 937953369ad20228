"""Identities: one operator for what a provider calls somebody, bound by a command."""

from __future__ import annotations

import pytest

from memoryhub.errors import InvalidError
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.access.operators import Operator
from memoryhub.services.access import identities, operators
from memoryhub.services.access.identities import ProviderIdentity

pytestmark = pytest.mark.django_db

ISSUER = "https://id.example"


@pytest.fixture
def olga(db: None) -> Operator:
    return operators.add("olga")


def found(subject: str = "7", issuer: str = ISSUER) -> Operator | None:
    return identities.find(
        ProviderIdentity(issuer=issuer, subject=subject, strong=False)
    )


def test_it_is_one_issuers_and_to_the_letter(olga: Operator) -> None:
    identities.bind(olga, issuer=ISSUER, subject="aB")
    assert found("aB") == olga
    for other in ("ab", "aB ", "a_", "", "\0", "x" * 256):
        assert found(other) is None
    assert found("aB", "https://elsewhere.example") is None


def test_it_is_one_operators(olga: Operator) -> None:
    bert = operators.add("bert")
    identities.bind(olga, issuer=ISSUER, subject="7")
    identities.bind(olga, issuer=ISSUER, subject="7")
    with pytest.raises(InvalidError) as refusal:
        identities.bind(bert, issuer=ISSUER, subject="7")
    assert refusal.value.invalid_code == "subject_taken"
    assert found() == olga


def test_an_operator_may_have_several_and_loses_all(olga: Operator) -> None:
    for subject in ("7", "8"):
        identities.bind(olga, issuer=ISSUER, subject=subject)
    assert found("7") == found("8") == olga
    assert identities.unbind(olga)
    assert not identities.unbind(olga)
    assert found() is None
    noted = AuditEntry.objects.filter(action__startswith="operator.identity")
    assert list(noted.order_by("seq").values_list("action", "target_id")) == [
        ("operator.identity_bound", str(olga.id)),
        ("operator.identity_bound", str(olga.id)),
        ("operator.identity_unbound", str(olga.id)),
    ]


def test_who_is_disabled_is_nobody(olga: Operator) -> None:
    identities.bind(olga, issuer=ISSUER, subject="7")
    Operator.objects.filter(id=olga.id).update(is_active=False)
    assert found() is None


@pytest.mark.parametrize("subject", ["", "x" * 256, "\n", "é", "\0"])
def test_what_can_be_no_subject_is_refused(olga: Operator, subject: str) -> None:
    with pytest.raises(InvalidError) as refusal:
        identities.bind(olga, issuer=ISSUER, subject=subject)
    assert refusal.value.invalid_code == "subject"
