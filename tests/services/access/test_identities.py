"""Provider identities: each belongs to one operator, bound by a command."""

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


def find_operator(subject: str = "7", issuer: str = ISSUER) -> Operator | None:
    return identities.find(
        ProviderIdentity(issuer=issuer, subject=subject, strong=False)
    )


def test_identity_matches_issuer_and_subject_exactly(olga: Operator) -> None:
    identities.bind(olga, issuer=ISSUER, subject="aB")
    assert find_operator("aB") == olga
    for other in ("ab", "aB ", "a_", "", "\0", "x" * 256):
        assert find_operator(other) is None
    assert find_operator("aB", "https://elsewhere.example") is None


def test_identity_belongs_to_one_operator(olga: Operator) -> None:
    bert = operators.add("bert")
    identities.bind(olga, issuer=ISSUER, subject="7")
    identities.bind(olga, issuer=ISSUER, subject="7")
    with pytest.raises(InvalidError) as refusal:
        identities.bind(bert, issuer=ISSUER, subject="7")
    assert refusal.value.invalid_code == "subject_taken"
    assert find_operator() == olga


def test_operator_may_have_several_identities_and_loses_all(olga: Operator) -> None:
    for subject in ("7", "8"):
        identities.bind(olga, issuer=ISSUER, subject=subject)
    assert find_operator("7") == find_operator("8") == olga
    assert identities.remove_identities(olga)
    assert not identities.remove_identities(olga)
    assert find_operator() is None
    noted = AuditEntry.objects.filter(action__startswith="operator.identity")
    assert list(noted.order_by("seq").values_list("action", "target_id")) == [
        ("operator.identity_bound", str(olga.id)),
        ("operator.identity_bound", str(olga.id)),
        ("operator.identity_unbound", str(olga.id)),
    ]


def test_identity_of_a_disabled_operator_is_not_found(olga: Operator) -> None:
    identities.bind(olga, issuer=ISSUER, subject="7")
    Operator.objects.filter(id=olga.id).update(is_active=False)
    assert find_operator() is None


@pytest.mark.parametrize("subject", ["", "x" * 256, "\n", "é", "\0"])
def test_invalid_provider_subject_is_refused(olga: Operator, subject: str) -> None:
    with pytest.raises(InvalidError) as refusal:
        identities.bind(olga, issuer=ISSUER, subject=subject)
    assert refusal.value.invalid_code == "subject"
